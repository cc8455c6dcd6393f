/** Starts the page: it has only the button for light and dark. */
import { startTheme } from '../../pages/browser/theme.js';

startTheme(() => undefined);
