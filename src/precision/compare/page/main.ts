/** Starts the page: it has only the button for light and dark. */
import { startTheme } from '../../../html/browser/theme.js';

startTheme(() => undefined);
