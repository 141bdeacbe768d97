// Rows of a tree with bars. A row keeps its element while it changes, so that the keyboard focus stays on it.
export default {
  template: `
    <div class="volcano-tree" role="table" :aria-label="label">
      <div v-for="row in rows" :key="row.name" role="row" class="volcano-tree-row" :data-name="row.name">
        <div v-if="!row.bare" role="cell" class="volcano-tree-name" :style="{ paddingLeft: row.depth * 1.1 + 'rem' }">
          <button v-if="row.open !== null" type="button" class="volcano-tree-toggle" :aria-expanded="row.open"
            :aria-label="(row.open ? 'Collapse ' : 'Expand ') + row.name" @click="$emit('toggle', row.name)">
            <span aria-hidden="true">{{ row.open ? '▾' : '▸' }}</span></button>
          <span v-else class="volcano-tree-leaf" aria-hidden="true"></span>
          <span><a class="volcano-link" :href="row.href">{{ row.name }}</a>
            <span class="volcano-tree-facts">
              <span><span class="volcano-dot" aria-hidden="true" :style="{ background: row.colour }"></span>
                {{ row.state }}</span><span v-for="fact in row.facts" :key="fact">{{ fact }}</span></span></span>
        </div>
        <div role="cell" class="volcano-bars">
          <div v-for="bar in row.bars" :key="bar.label" class="volcano-bar-of" role="img" :aria-label="bar.title"
            :title="bar.title">
            <span class="volcano-bar-text"><span>{{ bar.label }}</span><span>{{ bar.text }}</span></span>
            <span class="volcano-bar"><span class="volcano-bar-fill" :style="{ width: bar.fill + '%' }"></span>
              <span v-if="bar.over" class="volcano-bar-over" :style="{ left: bar.fill + '%', width: bar.over + '%' }">
              </span><span v-for="mark in bar.marks" :key="mark.kind" :class="'volcano-mark-' + mark.kind"
                :style="{ left: mark.at + '%' }"></span></span>
          </div>
        </div>
      </div>
    </div>`,
  props: { rows: Array, label: String },
};
