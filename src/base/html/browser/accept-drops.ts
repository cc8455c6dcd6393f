/** Files that are dropped on the page. */

/** Takes files that are dropped anywhere; the target has the class `dropping` while they are over the page. */
export function acceptDrops(target: HTMLElement, onFiles: (files: readonly File[]) => void): void {
  document.addEventListener('dragover', (event) => {
    event.preventDefault();
    target.classList.add('dropping');
  });
  document.addEventListener('dragleave', () => target.classList.remove('dropping'));
  document.addEventListener('drop', (event) => {
    event.preventDefault();
    target.classList.remove('dropping');
    onFiles([...(event.dataTransfer?.files ?? [])]);
  });
}
