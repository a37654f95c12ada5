/** Suggestions for misspelt names, which the library makes for its options too. */
export { closestName, didYouMean } from 'sluice/engine';
