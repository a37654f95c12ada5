/** Suggestions for misspelt names. The library also uses them for its options. */
export { closestName, didYouMean } from 'sluice/engine';
