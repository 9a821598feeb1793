"use strict";
// The viewer: what is shown, how mouse, touch and keys change it, and when it is drawn.

const STILL_AFTER = 140; // milliseconds without a change, after which the picture is drawn in full quality
const SLOW = 60; // milliseconds for one picture; if it takes longer, there is probably no graphics card
const PLAY_TIME = 5000, CHANGE_TIME = 500; // milliseconds: the whole animation, and the change to another alternative
const EXPLOSION = 1.6; // how far the slider moves pieces apart, relative to their distance from the centre

const NO_GAP = 255; // the byte of a point away from seams

class Viewer {
  constructor(data) {
    this.data = data;
    this.canvas = byId("canvas");
    this.tracks = data.alternatives.map((each) => new Track(each.track, each.frames, data.pieces.length));
    this.outlines = data.pieces.map(outline);
    this.state = { alternative: 0, time: 1, explode: 0, colorBy: "piece", hidden: new Set(), picked: [] };
    this.camera = { rotation: data.view, zoom: 1, pan: [0, 0] };
    this.change = null; // { from: poses, start: time } while one alternative turns into another
    this.playing = null; // { from: time of the slider, start: time of the clock }
    this.panel = new Panel(data, this.actions());
    try {
      this.startPainter();
    } catch (error) {
      byId("message").hidden = false;
      byId("message").textContent = `The 3D view cannot be drawn: ${error.message}. The tables below are complete.`;
    }
    this.listen();
    this.refresh();
  }

  startPainter() {
    this.painter = new Painter(this.canvas, this.data.pieces);
    this.painter.onImage = () => this.redraw();
    this.seamsOf = null; // the alternative whose seams the painter has
  }

  // -- controls -------------------------------------------------------------------------------------

  actions() {
    const { state } = this, then = (act) => (...given) => { act(...given); this.refresh(); };
    const { pieces } = this.data;
    return {
      alternative: then((i) => this.switchTo(i)),
      colorBy: then((value) => { state.colorBy = value; }),
      toggle: then((i) => { if (!state.hidden.delete(i)) state.hidden.add(i); }),
      only: then((...shown) => { state.hidden = new Set([...pieces.keys()].filter((i) => !shown.includes(i))); }),
      showAll: then(() => state.hidden.clear()),
      pick: then((i) => { state.picked = i < 0 || (state.picked.length === 1 && state.picked[0] === i) ? [] : [i]; }),
      pickPair: then((i, j) => { state.picked = samePair([i, j], state.picked) ? [] : [i, j]; }),
    };
  }

  switchTo(alternative) {
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.change = still ? null : { from: this.posesNow(), start: performance.now() };
    this.state.alternative = alternative;
  }

  setTime(time) {
    this.state.time = time;
    byId("time").value = time;
    this.refresh();
  }

  play(on = !this.playing) {
    const from = this.state.time >= 1 ? 0 : this.state.time;
    this.playing = on && this.track.frames > 1 ? { from, start: performance.now() } : null;
    this.refresh();
  }

  get track() { return this.tracks[this.state.alternative]; }

  // -- state --------------------------------------------------------------------------------------------

  refresh() {
    const { state } = this, canMove = this.track.frames > 1;
    byId("time-control").hidden = this.tracks.every((track) => track.frames < 2);
    byId("time").disabled = byId("play").disabled = !canMove;
    byId("play").classList.toggle("playing", Boolean(this.playing));
    byId("play").setAttribute("aria-label", this.playing ? "Pause" : "Play");
    const colors = this.colors();
    this.panel.update(state, colors);
    this.painter?.setColors(colors.map((color, i) => [...color, this.isPale(i) ? 90 : 255]));
    this.colorSeams();
    this.redraw();
  }

  colors() {
    const { pieces, alternatives, ramp, unplacedColor, plainColor } = this.data;
    const { confidence, placed } = alternatives[this.state.alternative];
    return pieces.map((piece, i) => {
      if (!placed[i]) return bytesOf(unplacedColor);
      if (this.state.colorBy === "confidence") return rampColor(ramp, confidence[i]);
      if (this.state.colorBy === "own") return bytesOf(piece.own?.mean ?? piece.color); // where discs leave gaps
      return bytesOf(this.state.colorBy === "seams" ? plainColor : piece.color);
    });
  }

  /** Hand the gaps of the chosen alternative to the painter, from blue at 0 to red. */
  colorSeams() {
    const { colorBy, alternative } = this.state, { pieces, ramp } = this.data;
    if (!this.painter || colorBy !== "seams" || this.seamsOf === alternative) return;
    const colors = Array.from({ length: 256 }, (_, level) =>
      level === NO_GAP ? [0, 0, 0, 0] : [...rampColor(ramp, 1 - level / (NO_GAP - 1)), 255]);
    this.painter.setSeamColors(pieces.map(({ seam }) => seam && paletted(decode(seam.gaps[alternative], Uint8Array), colors)));
    this.seamsOf = alternative;
  }

  /** While pieces are picked the others are paler, unless the colours are a scale. */
  isPale(i) {
    const { picked, hidden, colorBy } = this.state;
    const isScale = colorBy === "confidence" || colorBy === "seams";
    return !isScale && picked.some((piece) => !hidden.has(piece)) && !picked.includes(i);
  }

  posesNow() {
    let poses = explode(this.track.at(this.state.time), EXPLOSION * this.state.explode);
    if (this.change) {
      const t = Math.min((performance.now() - this.change.start) / CHANGE_TIME, 1), eased = t * t * (3 - 2 * t);
      poses = poses.map((pose, i) => between(this.change.from[i], pose, eased));
      if (t === 1) this.change = null;
    }
    return poses;
  }

  /** The ball around all pieces. */
  frame(poses) {
    const points = poses.flatMap(({ turn, center }, i) => {
      const matrix = matrixOf(turn);
      return this.outlines[i].map((point) => rotate(matrix, point).map((value, k) => value + center[k]));
    });
    const middle = [0, 1, 2].map((k) => {
      const values = points.map((point) => point[k]);
      return (Math.min(...values) + Math.max(...values)) / 2;
    });
    const reach = Math.max(...points.map((point) => Math.hypot(...point.map((value, k) => value - middle[k]))));
    return { middle, radius: 1.05 * reach };
  }

  // -- drawing --------------------------------------------------------------------------------------------------

  redraw() {
    this.canvas.dataset.frame = "moving";
    this.requested ??= requestAnimationFrame((now) => { this.requested = null; this.step(now); });
  }

  step(now) {
    if (this.playing) this.advance(now);
    this.draw(this.isSlow ? 0.5 : 1);
    clearTimeout(this.finer);
    if (this.playing || this.change) this.redraw();
    else this.finer = setTimeout(() => this.drawStill(), STILL_AFTER);
  }

  drawStill() {
    this.isSlow ??= this.painter && this.measureTime() > SLOW;
    this.draw(this.isSlow || devicePixelRatio >= 2 ? 1 : 2);
    this.canvas.dataset.frame = "still";
  }

  measureTime() {
    const start = performance.now();
    this.draw(1);
    this.painter.pieceAt(0, 0); // waits for the picture
    return performance.now() - start;
  }

  advance(now) {
    const time = Math.min(this.playing.from + (now - this.playing.start) / PLAY_TIME, 1);
    if (time === 1) this.playing = null;
    this.setTime(Math.max(time, 0));
  }

  /** `fineness`: samples along the side of a screen pixel; several are averaged. */
  draw(fineness) {
    const poses = this.posesNow(), view = { ...this.camera, ...this.frame(poses) };
    const ratio = (devicePixelRatio || 1) * Math.min(fineness, 1), { clientWidth, clientHeight } = this.canvas;
    const [width, height] = [clientWidth, clientHeight].map((length) => Math.max(Math.round(length * ratio), 1));
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    const accent = getComputedStyle(document.body).getPropertyValue("--accent").trim();
    this.painter?.draw({
      poses, view, picked: this.state.picked, colorBy: this.state.colorBy, accent: bytesOf(accent).map((value) => value / 255),
      visible: poses.map((_, i) => !this.state.hidden.has(i)),
    }, Math.max(fineness, 1), fineness >= 1);
    this.drawJoints(poses, view);
    this.drawScaleBar(view);
  }

  /** Where a point of the scene is in the canvas, in CSS pixels. */
  project(point, view) {
    const { clientWidth, clientHeight } = this.canvas, half = Math.min(clientWidth, clientHeight) / 2;
    const [x, y, z] = rotate(view.rotation, point.map((value, k) => (value - view.middle[k]) / view.radius));
    const zoom = (view.zoom * EYE) / (EYE - z);
    return [clientWidth / 2 + half * (x * zoom + view.pan[0]), clientHeight / 2 - half * (y * zoom + view.pan[1])];
  }

  /** Lines between pieces that touch, in the exploded view. */
  drawJoints(poses, view) {
    const { joints } = this.data.alternatives[this.state.alternative], { hidden, explode } = this.state;
    const isShown = ({ pieces }) => !pieces.some((i) => hidden.has(i));
    const shown = explode > 0.02 && !this.change ? joints.filter(isShown) : [];
    this.lines = shown.map(({ pieces, confidence }) => {
      const [from, to] = pieces.map((each) => this.project(poses[each].center, view));
      return { from, to, color: css(rampColor(this.data.ramp, confidence)) };
    });
    byId("joints").replaceChildren(...this.lines.flatMap(({ from: [x1, y1], to: [x2, y2], color }) => {
      const ends = [[x1, y1], [x2, y2]].map(([cx, cy]) => svgElement("circle", { cx, cy, r: 3.5, fill: color }));
      const line = { x1, y1, x2, y2 };
      return [svgElement("line", { ...line, class: "halo" }), svgElement("line", { ...line, stroke: color }), ...ends];
    }));
  }

  drawScaleBar(view) {
    const bar = byId("scale-bar"), half = Math.min(this.canvas.clientWidth, this.canvas.clientHeight) / 2;
    const pixels = (half * view.zoom) / (view.radius * this.data.scale); // of one unit of the input, at the centre
    const most = 110 / pixels, power = 10 ** Math.floor(Math.log10(most));
    const length = power * [5, 2, 1].find((factor) => factor * power <= most);
    this.bar = { length: length * pixels, label: number(length) };
    bar.style.setProperty("width", `${this.bar.length}px`);
    bar.firstElementChild.textContent = this.bar.label;
  }

  savePicture() {
    if (!this.painter) return;
    this.drawStill(); // what a canvas shows is gone once the page is painted
    const style = getComputedStyle(document.body), ratio = this.canvas.width / this.canvas.clientWidth;
    const [stage, ink] = ["--stage", "--ink"].map((name) => style.getPropertyValue(name).trim());
    const legend = this.panel.legendOf(this.state), { lines, bar } = this;
    savePng(snapshot(this.canvas, { ratio, stage, ink, lines, bar, legend }), this.data.title);
  }

  // -- mouse, touch and keys ------------------------------------------------------------------------------------

  listen() {
    byId("time").oninput = (event) => { this.playing = null; this.setTime(Number(event.target.value)); };
    byId("explode").oninput = (event) => { this.state.explode = Number(event.target.value); this.redraw(); };
    byId("play").onclick = () => this.play();
    byId("reset").onclick = () => this.reset();
    byId("save-picture").onclick = () => this.savePicture();
    byId("zoom-in").onclick = () => this.zoom(1.25);
    byId("zoom-out").onclick = () => this.zoom(0.8);
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").onchange = () => this.redraw();
    this.canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    this.canvas.addEventListener("webglcontextrestored", () => {
      this.startPainter();
      this.refresh();
    });
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
    new Pointers(this.canvas, {
      turn: (dx, dy) => this.turn(dx, dy),
      move: (dx, dy) => this.move(dx, dy),
      zoom: (factor, place) => this.zoom(factor, place),
      click: (x, y) => this.panel.act.pick(this.pieceAt(x, y)),
      hover: (x, y) => this.hover(x, y),
    });
  }

  /** Rotate by a drag in pixels, about the axes of the view, so that every side can be reached. */
  turn(dx, dy, roll = 0) {
    const [y, x, z] = [turnAbout(1, dx / 150), turnAbout(0, dy / 150), turnAbout(2, roll)];
    this.camera.rotation = product(z, product(x, product(y, this.camera.rotation)));
    this.redraw();
  }

  move(dx, dy) {
    const half = Math.min(this.canvas.clientWidth, this.canvas.clientHeight) / 2;
    this.camera.pan = [this.camera.pan[0] + dx / half, this.camera.pan[1] - dy / half];
    this.redraw();
  }

  /** Zoom while the point at `place`, in pixels from the centre of the canvas, stays fixed. */
  zoom(factor, place = [0, 0]) {
    const zoom = Math.min(Math.max(this.camera.zoom * factor, 0.2), 60), real = zoom / this.camera.zoom;
    const half = Math.min(this.canvas.clientWidth, this.canvas.clientHeight) / 2;
    const fixed = [place[0] / half, -place[1] / half];
    this.camera.pan = mix(fixed, this.camera.pan, real);
    this.camera.zoom = zoom;
    this.redraw();
  }

  reset() {
    this.camera = { rotation: this.data.view, zoom: 1, pan: [0, 0] };
    this.redraw();
  }

  pieceAt(x, y) { return this.painter?.pieceAt(x / this.canvas.clientWidth, y / this.canvas.clientHeight) ?? -1; }

  hover(x, y) {
    const piece = x === null ? -1 : this.pieceAt(x, y), tip = byId("tip");
    this.canvas.classList.toggle("on-piece", piece >= 0);
    tip.hidden = piece < 0;
    if (piece < 0) return;
    tip.textContent = this.data.pieces[piece].name;
    tip.style.setProperty("translate", `${x + 14}px ${y + 14}px`);
  }

  onKey(event) {
    const { picked, hidden } = this.state, count = this.data.pieces.length, step = event.shiftKey ? 30 : 20;
    const drag = (dx, dy) => (event.shiftKey ? this.move(dx, dy) : this.turn(dx, dy));
    const keys = {
      ArrowLeft: () => drag(-step, 0), ArrowRight: () => drag(step, 0),
      ArrowUp: () => drag(0, -step), ArrowDown: () => drag(0, step),
      ",": () => this.turn(0, 0, 0.1), ".": () => this.turn(0, 0, -0.1),
      "+": () => this.zoom(1.25), "=": () => this.zoom(1.25), "-": () => this.zoom(0.8), 0: () => this.reset(),
      n: () => this.panel.act.pick(((picked[0] ?? -1) + 1) % count),
      p: () => this.panel.act.pick(((picked[0] ?? 0) + count - 1) % count),
      h: () => picked.forEach((piece) => this.panel.act.toggle(piece)),
      s: () => this.savePicture(),
      Escape: () => this.panel.act.pick(-1),
      " ": () => this.play(),
    };
    const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }
}

/** Turns mouse and touch on an element into turns, moves, zooms, clicks and hovers. */
class Pointers {
  constructor(target, act) {
    Object.assign(this, { target, act, down: new Map(), travelled: 0 });
    target.addEventListener("pointerdown", (event) => this.onDown(event));
    target.addEventListener("pointermove", (event) => this.onMove(event));
    for (const type of ["pointerup", "pointercancel"]) target.addEventListener(type, (event) => this.onUp(event));
    target.addEventListener("pointerleave", () => act.hover(null, null));
    target.addEventListener("contextmenu", (event) => event.preventDefault());
    target.addEventListener("wheel", (event) => {
      event.preventDefault();
      const rate = event.deltaMode === 1 ? 0.05 : 0.0015; // lines or pixels
      act.zoom(Math.exp(-event.deltaY * rate), this.fromMiddle(event.offsetX, event.offsetY));
    }, { passive: false });
  }

  fromMiddle(x, y) { return [x - this.target.clientWidth / 2, y - this.target.clientHeight / 2]; }

  onDown(event) {
    if (this.down.size === 0) this.travelled = 0;
    this.down.set(event.pointerId, [event.offsetX, event.offsetY]);
    this.target.setPointerCapture(event.pointerId);
    this.act.hover(null, null);
  }

  onMove(event) {
    const now = [event.offsetX, event.offsetY], before = this.down.get(event.pointerId);
    if (!before) return event.pointerType === "mouse" ? this.act.hover(...now) : undefined;
    const [dx, dy] = [now[0] - before[0], now[1] - before[1]];
    this.travelled += Math.hypot(dx, dy);
    const other = [...this.down].find(([id]) => id !== event.pointerId)?.[1];
    this.down.set(event.pointerId, now);
    if (other) this.pinch(before, now, other);
    else if (event.shiftKey || event.buttons & 6) this.act.move(dx, dy);
    else this.act.turn(dx, dy);
  }

  /** One of two fingers moved: half of its path moves the view, the change of their distance zooms. */
  pinch(before, now, other) {
    const distance = (point) => Math.max(Math.hypot(point[0] - other[0], point[1] - other[1]), 1);
    this.act.move((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
    this.act.zoom(distance(now) / distance(before), this.fromMiddle((now[0] + other[0]) / 2, (now[1] + other[1]) / 2));
  }

  onUp(event) {
    const alone = this.down.size === 1;
    const known = this.down.delete(event.pointerId);
    if (known && alone && this.travelled < 5 && event.type === "pointerup" && event.button === 0)
      this.act.click(event.offsetX, event.offsetY);
  }
}

/** The points of a piece that lie farthest in each of 26 directions: enough to frame it. */
function outline(piece) {
  const places = decode(piece.places, Uint16Array), steps = [-1, 0, 1];
  const all = steps.flatMap((x) => steps.flatMap((y) => steps.map((z) => [x, y, z])));
  const ways = all.filter((way) => way.some(Boolean));
  const best = ways.map(() => [-Infinity, null]);
  for (let row = 0; row < places.length; row += 3) {
    const point = [0, 1, 2].map((k) => piece.low[k] + (piece.extent[k] * places[row + k]) / 65535);
    ways.forEach(([x, y, z], i) => {
      const reach = x * point[0] + y * point[1] + z * point[2];
      if (reach > best[i][0]) best[i] = [reach, point];
    });
  }
  return best.map(([, point]) => point);
}

/** Four bytes of a palette for every value. */
function paletted(values, palette) {
  const result = new Uint8Array(4 * values.length);
  values.forEach((value, i) => result.set(palette[value], 4 * i));
  return result;
}

function svgElement(tag, attributes) {
  const result = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) result.setAttribute(name, value);
  return result;
}

new Viewer(JSON.parse(byId("data").textContent));
