// Draws the page's figures with plotly, in the colours that the reader's system or button asks for.
// Figures are described once, in light colours; `colors` maps each to its dark counterpart.
(function () {
  "use strict";
  const colors = JSON.parse(document.getElementById("dark-colors").textContent);
  const figures = Array.from(document.querySelectorAll("script.figure"), (script) => ({
    place: document.getElementById(script.dataset.place),
    described: JSON.parse(script.textContent),
  }));
  const button = document.getElementById("colors");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const choices = ["auto", "light", "dark"];
  let choice = "auto";

  function darkened(value) {
    if (typeof value === "string") return colors[value] || value;
    if (Array.isArray(value)) return value.map(darkened);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, darkened(part)]));
  }

  function drawOne({ place, described }, dark) {
    // Plotly writes into what it is given.
    const copy = dark ? darkened(described) : structuredClone(described);
    // With the same uirevision a reader's zoom outlives a change of colours.
    copy.layout.uirevision = "kept";
    Plotly.react(place, copy.data, copy.layout, { displaylogo: false, responsive: true });
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
    figures.forEach((figure) => drawOne(figure, false));
  }

  function isDark() {
    return choice === "dark" || (choice === "auto" && system.matches);
  }

  function show() {
    if (choice === "auto") document.documentElement.removeAttribute("data-colors");
    else document.documentElement.setAttribute("data-colors", choice);
    button.textContent = "colours: " + choice;
    draw(isDark());
  }

  button.addEventListener("click", () => {
    choice = choices[(choices.indexOf(choice) + 1) % choices.length];
    show();
  });
  system.addEventListener("change", () => draw(isDark()));
  // Paper is white, whatever the screen shows.
  window.addEventListener("beforeprint", drawForPaper);
  window.addEventListener("afterprint", () => draw(isDark()));
  show();
})();
