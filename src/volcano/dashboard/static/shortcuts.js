// Keys: `/` focuses the filter of a page, `g` and a letter open a page (PAGES is written by the page itself), `Enter` on a
// column header sorts by it.
const reachHeaders = () => {
  for (const header of document.querySelectorAll("th.sortable:not([tabindex])")) header.tabIndex = 0;
};
new MutationObserver(reachHeaders).observe(document.body, { childList: true, subtree: true });
let lastG = 0;
addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select, [contenteditable], .xterm, .cm-editor");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    const filter = document.querySelector("[data-filter] input, input[data-filter]");
    if (filter) {
      event.preventDefault();
      filter.focus();
    }
  } else if (event.key === "Enter" && event.target.matches?.("th.sortable")) {
    event.target.click();
  } else if (event.key === "g") {
    lastG = Date.now();
  } else if (PAGES[event.key] && Date.now() - lastG < 1500) {
    location.assign(PAGES[event.key]);
  }
});
