/** The dashboard: draws itself into the page, and asks nobody but the service it came from. */
import { App } from './app.ts';

void new App(document.getElementById('app')!).start();
