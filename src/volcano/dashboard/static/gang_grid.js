// The pods of a gang: one cell for each replica, by task. Tab enters a task, arrow keys move between its cells.
export default {
  props: { tasks: Array, chosen: String },
  emits: ["choose"],
  template: `
    <div class="volcano-gang">
      <section v-for="task in tasks" :key="task.name" :aria-label="'Task ' + task.name">
        <div class="volcano-gang-title"><b>{{ task.name }}</b> <span class="volcano-muted">{{ task.size }}</span>
          <span v-for="count in task.counts" :key="count.text" class="volcano-gang-count">
            <span class="volcano-pod-cell volcano-pod-cell-small" :style="{ '--cell': count.colour }" aria-hidden="true">{{
              count.mark }}</span>{{ count.text }}</span>
        </div>
        <div class="volcano-pod-cells" role="group" :aria-label="'Pods of ' + task.name" @keydown="move">
          <button v-for="(cell, place) in task.cells" :key="cell.index" type="button" class="volcano-pod-cell"
            :class="{ 'volcano-pod-cell-chosen': cell.pod && cell.pod === chosen }" :style="{ '--cell': cell.colour }"
            :tabindex="place === (entry[task.name] || 0) ? 0 : -1" :aria-label="cell.label" :title="cell.label"
            :aria-pressed="cell.pod && cell.pod === chosen ? 'true' : 'false'" :data-pod="cell.pod"
            :disabled="!cell.pod" @focus="entry[task.name] = place" @click="$emit('choose', cell.pod)">{{ cell.mark
          }}</button>
        </div>
      </section>
    </div>`,
  data() {
    return { entry: {} }; // by task: the cell that Tab reaches
  },
  methods: {
    move(event) {
      const cells = [...event.currentTarget.querySelectorAll("button:not(:disabled)")];
      const here = cells.indexOf(document.activeElement);
      if (here < 0) return;
      const top = cells[here].offsetTop;
      const left = cells[here].offsetLeft;
      const steps = {
        ArrowRight: () => cells[here + 1],
        ArrowLeft: () => cells[here - 1],
        Home: () => cells[0],
        End: () => cells[cells.length - 1],
        ArrowDown: () => cells.slice(here).find((each) => each.offsetTop > top && each.offsetLeft >= left),
        ArrowUp: () => cells.slice(0, here).reverse().find((each) => each.offsetTop < top && each.offsetLeft <= left),
      };
      const step = steps[event.key];
      if (!step) return;
      event.preventDefault();
      step()?.focus();
    },
  },
};
