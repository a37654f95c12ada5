/** What the author of a store needs to hold it to the contract: `sluice/testing`. */
export {
  type AdapterCase,
  type AdapterUnderTest,
  adapterContract,
  type RunningServer,
} from './adapter-contract.ts';
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
