/** `sluice/testing`: contract tests for stores and adapters, and a runner of vector files. */
export type { AdapterCase, AdapterUnderTest, RunningServer } from './adapter-case.ts';
export { adapterContract } from './adapter-contract.ts';
export { type ContractCase, storeContract } from './store-contract.ts';
export {
  parseVectors,
  runVectors,
  type VectorCase,
  type VectorDifference,
  type VectorFile,
  type VectorReport,
  type VectorStep,
} from './vectors.ts';
