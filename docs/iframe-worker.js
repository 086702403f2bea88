// Browsers refuse workers to pages that lie on a disk, and the search is one: there a hidden frame,
// which has an origin in common with the page, does a worker's work.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.append(frame);
      const inner = frame.contentWindow;
      // What the script posts is for the page, and not for its own window.
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inner.importScripts = (...urls) =>
        urls.reduce((before, next) => before.then(() => this.load(inner, next)), Promise.resolve());
      this.inner = inner;
      this.ready = this.load(inner, new URL(url, location.href).href);
    }

    load(inner, source) {
      return new Promise((resolve, reject) => {
        const script = inner.document.createElement("script");
        Object.assign(script, { src: source, onload: resolve, onerror: reject });
        inner.document.body.append(script);
      });
    }

    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.inner.frameElement.remove();
    }
  };
}
