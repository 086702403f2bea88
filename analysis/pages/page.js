// Draws the page's figures with plotly, in the colours that the reader's system or button asks for,
// and lists the page's sections. Figures are described once, in light colours; `colors` maps each
// to its dark counterpart.
(function () {
  "use strict";
  const colors = JSON.parse(document.getElementById("dark-colors").textContent);
  const figures = Array.from(document.querySelectorAll("script.figure"), (script) => ({
    place: document.getElementById(script.dataset.place),
    packed: script.textContent,
  }));
  const button = document.getElementById("colors");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const choices = ["auto", "light", "dark"];
  let choice = "auto";

  async function inflated(text) {
    const packed = atob(text), bytes = new Uint8Array(packed.length);
    for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  // Plotly and the figures are compressed: as they are, they would be 5 MB of the page.
  async function unpack() {
    const texts = figures.map(async (each) => { each.described = await inflated(each.packed); });
    const script = document.createElement("script");
    script.textContent = await inflated(document.getElementById("plotly").textContent);
    await Promise.all(texts);
    document.head.append(script);
    if (!window.Plotly) throw new Error("plotly cannot be run");
  }

  function darkened(value) {
    if (typeof value === "string") return colors[value] || value;
    if (Array.isArray(value)) return value.map(darkened);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, darkened(part)]));
  }

  // What a sheet of A4 or letter leaves between its margins.
  const PAPER = 680;

  // The caption has the title; the legend goes below where there is no room beside.
  function fitted(layout, data, place, paper) {
    const width = paper ? PAPER : place.clientWidth;
    const shown = data.filter((trace) => trace.showlegend && trace.visible !== false);
    if (paper) layout.width = PAPER;
    delete layout.title;
    layout.margin = Object.assign({}, layout.margin, { t: 28 });
    layout.height = place.closest(".small") ? 300 : place.closest(".screen") ? 400 : 420;
    layout.xaxis.title.standoff = 18;
    const above = layout.legend.orientation === "h";
    // Plotly sets all names as wide as the longest.
    const name = Math.max(0, ...shown.map((trace) => trace.name.length)) * 7 + 48;
    const room = above ? 700 : Math.max(700, 4 * name);
    if (width < room && shown.length) {
      const rows = Math.ceil(shown.length / Math.max(1, Math.floor((width - 80) / name)));
      layout.height += 20 * rows - (place.closest(".small") ? 20 : 50);
      const below = { orientation: "h", x: 0, xanchor: "left", y: 0, yref: "container" };
      layout.legend = Object.assign({}, layout.legend, below, { yanchor: "bottom" });
      layout.margin.b = 62 + 20 * rows;
      if (width < 700) layout.font.size = 12;
    } else if (above) layout.margin.t = 40;
    const axis = layout.xaxis;
    const letters = (axis.ticktext || []).reduce((sum, text) => sum + text.length * 8 + 8, 0);
    if (letters > width - 140) {
      axis.tickvals = axis.tickvals.filter((_, i) => i % 2 === 0);
      axis.ticktext = axis.ticktext.filter((_, i) => i % 2 === 0);
    }
    if (width < 500) Object.assign(layout.margin, { l: 58, r: layout.margin.r > 20 ? 62 : 12 });
  }

  // Of a figure with groups only one is shown.
  function choose(copy, place) {
    const asked = document.querySelector(`.groups[data-place="${place.id}"] input:checked`);
    if (!asked) return;
    const has = (groups) => !groups || !groups.length || groups.includes(asked.value);
    copy.data.forEach((trace) => { trace.visible = has(trace.meta); });
    const labels = (copy.layout.meta || {}).labels || [];
    labels.forEach((groups, i) => { copy.layout.annotations[i].visible = has(groups); });
  }

  function drawOne({ place, described }, dark, paper) {
    // Plotly writes into what it is given.
    const plain = JSON.parse(described), copy = dark ? darkened(plain) : plain;
    choose(copy, place);
    fitted(copy.layout, copy.data, place, paper);
    // With the same uirevision a reader's zoom outlives a change of colours.
    copy.layout.uirevision = "kept";
    // Nothing of a sweep leaves the reader's machine: no button that uploads a figure.
    const kept = { showSendToCloud: false, plotlyServerURL: "" };
    const unused = ["select2d", "lasso2d", "autoScale2d"];
    const config = { displaylogo: false, responsive: !paper, modeBarButtonsToRemove: unused, ...kept };
    Plotly.react(place, copy.data, copy.layout, config);
    // Numbers of ticks without their axes say nothing: the caption, and tables, are there to be read.
    place.querySelectorAll(".main-svg").forEach((svg) => svg.setAttribute("aria-hidden", "true"));
    if (place.id === figures[0].place.id) performance.mark("first-figure");
  }

  // The first figure at once, the others when the page is already there to be read.
  let latest = 0;
  function draw(dark) {
    const mine = ++latest;
    const waiting = figures.slice();
    function next() {
      if (mine !== latest || waiting.length === 0) return;
      drawOne(waiting.shift(), dark);
      setTimeout(next);
    }
    next();
  }

  function drawForPaper() {
    latest++;
    figures.forEach((figure) => drawOne(figure, false, true));
  }

  function isDark() {
    return choice === "dark" || (choice === "auto" && system.matches);
  }

  function show() {
    if (choice === "auto") document.documentElement.removeAttribute("data-colors");
    else document.documentElement.setAttribute("data-colors", choice);
    button.textContent = "colours: " + choice;
    if (window.Plotly) draw(isDark());
  }

  function listContents() {
    const nav = document.getElementById("contents"), folded = nav.querySelector("details");
    const headings = Array.from(document.querySelectorAll("main h2"));
    headings.forEach((heading, i) => {
      heading.id = heading.id || "section-" + i;
      const item = document.createElement("li"), link = document.createElement("a");
      link.href = "#" + heading.id;
      link.textContent = heading.dataset.contents || heading.textContent;
      item.append(link);
      nav.querySelector("ol").append(item);
    });
    nav.hidden = headings.length < 2;
    const links = Array.from(nav.querySelectorAll("a"));
    const wide = window.matchMedia("(min-width: 1081px)");
    function fold() { folded.open = wide.matches; }
    wide.addEventListener("change", fold);
    fold();
    nav.addEventListener("click", (event) => {
      if (event.target.closest("a") && !wide.matches) folded.open = false;
    });
    // The section that is read: the last heading above the upper third of the window.
    function mark() {
      const passed = headings.filter((each) => each.getBoundingClientRect().top < innerHeight / 3);
      const current = Math.max(0, passed.length - 1);
      links.forEach((link, i) => {
        if (i === current) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      });
    }
    document.addEventListener("scroll", mark, { passive: true });
    mark();
  }

  button.addEventListener("click", () => {
    choice = choices[(choices.indexOf(choice) + 1) % choices.length];
    show();
  });
  document.addEventListener("change", (event) => {
    const group = event.target.closest(".groups");
    if (group && window.Plotly) {
      drawOne(figures.find((each) => each.place.id === group.dataset.place), isDark());
    }
  });
  listContents();
  show();
  if (!figures.length) return;
  unpack().then(() => {
    draw(isDark());
    system.addEventListener("change", () => draw(isDark()));
    // What goes beside and what below depends on the width.
    let width = innerWidth;
    window.addEventListener("resize", () => {
      if (innerWidth !== width) { width = innerWidth; draw(isDark()); }
    });
    // Paper is white, whatever the screen shows.
    window.addEventListener("beforeprint", drawForPaper);
    window.addEventListener("afterprint", () => draw(isDark()));
  }, (error) => {
    document.getElementById("no-figures").hidden = false;
    console.warn(error);
  });
})();
