/** Entry point. The dashboard sends requests only to the service that serves it. */
import { App } from './app.ts';

void new App(document.getElementById('app')!).start();
