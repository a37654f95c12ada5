import { looksOn } from './looks.ts';
import { DESKTOP } from './stage.ts';

looksOn('desktop', DESKTOP);
