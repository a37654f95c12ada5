import { looksOn } from './looks.ts';
import { PHONE } from './stage.ts';

looksOn('phone', PHONE);
