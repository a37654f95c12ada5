/** Entry point. The dashboard sends requests only to the service that serves its files. */
import { App } from './app.ts';

void new App(document.getElementById('app')!).start();
