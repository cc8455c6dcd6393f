/** The search field above the failures. */

/** Makes the search field work, if the page has one. */
export function startFailureSearch(): void {
  const field = document.querySelector<HTMLInputElement>('#failure-search');
  const count = document.querySelector('#failure-count');
  if (!field || !count) return;
  const groups = [...document.querySelectorAll<HTMLDetailsElement>('details.failures')].map((group) => ({
    group,
    wasOpen: group.open,
    items: [...group.querySelectorAll('li')].map((item) => ({
      item,
      text: `${item.textContent} ${group.querySelector('code')?.textContent}`.toLowerCase(),
    })),
  }));
  field.addEventListener('input', () => {
    const wanted = field.value.trim().toLowerCase();
    let found = 0;
    for (const { group, items, wasOpen } of groups) {
      let inGroup = 0;
      for (const { item, text } of items) {
        item.hidden = !text.includes(wanted);
        if (!item.hidden) inGroup++;
      }
      group.hidden = inGroup === 0;
      group.open = wanted === '' ? wasOpen : inGroup > 0;
      found += inGroup;
    }
    count.textContent = wanted === '' ? '' : `${found} listed failures match`;
  });
}
