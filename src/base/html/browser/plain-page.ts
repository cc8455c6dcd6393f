/** Starts a page that has only the button for light and dark. */
import { startTheme } from './theme.js';

startTheme(() => undefined);
