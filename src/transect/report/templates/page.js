(function () {
  "use strict";
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  var charts = Array.prototype.slice.call(document.querySelectorAll(".chart"));

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  // Text, grid and marks take the page's colours; the data's colours are the same on light and dark.
  function themed(layout) {
    var copy = JSON.parse(JSON.stringify(layout));
    copy.paper_bgcolor = copy.plot_bgcolor = "rgba(0,0,0,0)";
    copy.font = { color: colour("--ink"), family: getComputedStyle(document.body).fontFamily, size: 13 };
    copy.hoverlabel = { bgcolor: colour("--card"), bordercolor: colour("--line"), font: { color: colour("--ink") } };
    Object.keys(copy).forEach(function (key) {
      if (/^[xy]axis/.test(key)) {
        copy[key].gridcolor = colour("--grid");
        copy[key].linecolor = copy[key].tickcolor = colour("--line");
      }
    });
    (copy.shapes || []).forEach(function (shape) { shape.line.color = colour("--soft"); });
    return copy;
  }

  // Where there is little room, fewer sites are named; which ones was worked out beforehand.
  function fitted(layout, chart) {
    var named = layout.meta && layout.meta.named;
    if (named && chart.clientWidth < 620) {
      layout.xaxis.tickvals = named.tickvals;
      layout.xaxis.ticktext = named.ticktext;
    }
    return layout;
  }

  function figureOf(chart) {
    return JSON.parse(document.getElementById(chart.id + "-figure").textContent);
  }

  function draw() {
    charts.forEach(function (chart) {
      var figure = figureOf(chart);
      window.Plotly.react(chart, figure.data, fitted(themed(figure.layout), chart), { displaylogo: false, responsive: true, displayModeBar: false });
    });
  }

  draw();
  dark.addEventListener("change", draw);
  window.addEventListener("resize", draw);
  window.addEventListener("beforeprint", draw);
  window.addEventListener("afterprint", draw);
})();
