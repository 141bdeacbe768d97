// The lives of pods as bars on one axis of time. Only the lines in view are drawn.
export default {
  props: { lines: Array, ticks: Array },
  emits: ["choose"],
  template: `
    <div class="volcano-timeline" role="group" aria-label="Timeline of pods">
      <div class="volcano-timeline-axis" aria-hidden="true"><span v-for="tick in ticks" :key="tick.at"
        :style="{ left: tick.at + '%' }">{{ tick.text }}</span></div>
      <q-virtual-scroll :items="lines" :virtual-scroll-item-size="26" style="max-height: 60vh" v-slot="{ item }">
        <div class="volcano-timeline-line" :key="item.pod">
          <button type="button" class="volcano-timeline-name" :title="item.title" :aria-label="item.title" :disabled="item.gone"
            @click="$emit('choose', item.pod)">{{ item.name }}</button>
          <span class="volcano-timeline-bars" aria-hidden="true"><span v-for="(bar, place) in item.bars" :key="place"
            :class="'volcano-stage volcano-stage-' + bar.stage" :title="bar.title"
            :style="{ left: bar.left + '%', width: bar.width + '%' }"></span></span>
        </div>
      </q-virtual-scroll>
    </div>`,
};
