// Cells in groups, each a link. One cell is reached with Tab; arrow keys, Home and End lead to the others.
export default {
  template: `
    <div class="volcano-cells" :class="{ 'volcano-many': names.length > 300 }" role="group" :aria-label="label" @keydown="onKey">
      <section v-for="group in groups" :key="group.name" class="volcano-cell-group" :aria-label="group.name || label">
        <div class="volcano-cell-head"><span v-if="group.name">{{ group.name }}</span>
          <span class="volcano-muted">{{ group.summary }}</span></div>
        <div class="volcano-cell-row">
          <a v-for="cell in group.cells" :key="cell.name" class="volcano-cell" :href="prefix + cell.name"
            :class="'volcano-cell-' + cell.state" :style="style(cell)" :title="words(cell)" :aria-label="words(cell)"
            :tabindex="cell.name === (current || first) ? 0 : -1" @focus="current = cell.name"
            ><span aria-hidden="true">{{ sign(cell) }}</span></a>
        </div>
      </section>
    </div>`,
  props: { groups: Array, label: String, prefix: String, resource: String },
  data: () => ({ current: "" }),
  computed: {
    names() {
      return this.groups.flatMap((group) => group.cells.map((cell) => cell.name));
    },
    first() {
      return this.names[0];
    },
  },
  watch: {
    names(names) {
      if (this.current && !names.includes(this.current)) this.current = "";
    },
  },
  methods: {
    style(cell) {
      return cell.percent < 0 ? {} : { "--part": Math.min(cell.percent, 100) + "%" };
    },
    sign(cell) {
      return { NotReady: "×", Cordoned: "–" }[cell.state] || "";
    },
    words(cell) {
      const state = { NotReady: ", not ready", Cordoned: ", cordoned" }[cell.state] || "";
      const used = cell.percent < 0 ? `no ${this.resource}` : `${cell.percent} % of ${this.resource} used`;
      return `${cell.name}: ${used}${state}`;
    },
    onKey(event) {
      const cells = [...this.$el.querySelectorAll(".volcano-cell")];
      const at = cells.indexOf(document.activeElement);
      if (at < 0) return;
      const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: cells.length - 1 }[event.key];
      const target = next === undefined ? this.vertical(cells, at, event.key) : cells[next];
      if (target) {
        event.preventDefault();
        target.focus();
      }
    },
    vertical(cells, at, key) {
      const sign = { ArrowDown: 1, ArrowUp: -1 }[key];
      if (!sign) return null;
      const from = cells[at].getBoundingClientRect();
      let best = null;
      for (const cell of cells) {
        const box = cell.getBoundingClientRect();
        const down = (box.top - from.top) * sign;
        if (down < 2) continue;
        const distance = down * 1000 + Math.abs(box.left - from.left);
        if (!best || distance < best.distance) best = { cell, distance };
      }
      return best && best.cell;
    },
  },
};
