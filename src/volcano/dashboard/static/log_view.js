// Lines of logs. They are added as text, never as HTML; the oldest are removed beyond a number. The view stays at the
// end while it is there.
export default {
  props: { most: { type: Number, default: 5000 }, label: String },
  template: `<div ref="box" class="volcano-log" role="log" aria-live="off" tabindex="0" :aria-label="label"></div>`,
  methods: {
    add(lines) {
      const box = this.$refs.box;
      const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 24;
      const added = document.createDocumentFragment();
      for (const [title, hue, text] of lines) {
        const line = document.createElement("div");
        if (title) {
          const source = document.createElement("span");
          source.className = "volcano-log-source";
          source.style.setProperty("--hue", hue);
          source.textContent = title;
          line.append(source);
        }
        line.append(text);
        added.append(line);
      }
      box.append(added);
      while (box.childElementCount > this.most) box.firstElementChild.remove();
      if (atEnd) box.scrollTop = box.scrollHeight;
    },
    clear() {
      this.$refs.box.replaceChildren();
    },
    save(name) {
      const text = [...this.$refs.box.children].map((each) => each.innerText).join("\n") + "\n";
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
      link.download = name;
      link.click();
      URL.revokeObjectURL(link.href);
    },
  },
};
