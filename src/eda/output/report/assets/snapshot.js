"use strict";
// A picture of the view as a file: what the canvas shows, with lines between pieces, scale bar and legend.

const FONT = "12px system-ui, sans-serif";

/** A canvas with the background, the 3D view and all that lies over it; `ratio`: its pixels in a CSS pixel. */
function snapshot(view, { ratio, stage, ink, lines, bar, legend }) {
  const result = element("canvas", { width: view.width, height: view.height }), pen = result.getContext("2d");
  pen.fillStyle = stage;
  pen.fillRect(0, 0, view.width, view.height);
  pen.drawImage(view, 0, 0);
  pen.scale(ratio, ratio);
  const [width, height] = [view.width / ratio, view.height / ratio];
  [pen.font, pen.lineWidth, pen.strokeStyle, pen.fillStyle] = [FONT, 2.5, ink, ink];
  lines.forEach((line) => drawLine(pen, line));
  [pen.strokeStyle, pen.lineWidth, pen.textAlign] = [ink, 1.5, "center"];
  drawBar(pen, bar, 16, height - 16);
  if (legend) drawLegend(pen, legend, width - 196, height - 34);
  return result;
}

function drawLine(pen, { from, to, color }) {
  pen.strokeStyle = color;
  pen.beginPath();
  pen.moveTo(...from);
  pen.lineTo(...to);
  pen.stroke();
}

function drawBar(pen, { length, label }, left, bottom) {
  pen.beginPath();
  pen.moveTo(left, bottom - 7);
  pen.lineTo(left, bottom);
  pen.lineTo(left + length, bottom);
  pen.lineTo(left + length, bottom - 7);
  pen.stroke();
  pen.fillText(label, left + length / 2, bottom - 11);
}

function drawLegend(pen, { title, colors, ends }, left, top) {
  const width = 180, gradient = pen.createLinearGradient(left, 0, left + width, 0), ink = pen.fillStyle;
  colors.forEach((color, i) => gradient.addColorStop(i / (colors.length - 1), color));
  pen.fillStyle = gradient;
  pen.fillRect(left, top, width, 9);
  pen.fillStyle = ink;
  pen.fillText(title, left + width / 2, top - 6);
  ends.forEach((text, i) => {
    pen.textAlign = ["left", "center", "right"][i];
    pen.fillText(text, left + (width * i) / 2, top + 23);
  });
}

/** Hand a canvas to the user as a PNG file. */
function savePng(canvas, name) {
  canvas.toBlob((blob) => {
    const link = element("a", { href: URL.createObjectURL(blob), download: `${fileName(name)}.png` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  });
}

const fileName = (text) => text.replace(/[^\p{L}\p{N}._ -]+/gu, "_").slice(0, 80);
