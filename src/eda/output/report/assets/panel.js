"use strict";
// Everything around the 3D view: lists, cards and tables. All text is set as text, never as markup.

const byId = (id) => document.getElementById(id);

/** An element with properties and children; strings become text. */
function element(tag, properties = {}, ...children) {
  const { style, ...rest } = properties;
  const result = Object.assign(document.createElement(tag), rest);
  for (const [name, value] of Object.entries(style ?? {})) result.style.setProperty(name, value);
  result.append(...children);
  return result;
}

const percent = (value) => `${(100 * value).toFixed(value > 0 && value < 0.01 ? 1 : 0)}\u00a0%`; // not broken before the sign
const minus = (text) => text.replace("-", "\u2212");
const number = (value, digits = 4) => minus(String(Number(value.toPrecision(digits))));
const formatScore = (value) => minus(value.toFixed(3));
const countOf = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
const placedOf = ({ placed }) => `${placed.filter(Boolean).length} of ${placed.length}`;

// Explanations, shown when the pointer rests on a word or number.
const PROBABILITY = "The probability that all placed pieces are in the right place";
const CONFIDENCE = "The probability that this piece is in the right place";
const SCORE = "How well the pieces fit; greater is better";
const JOINT = "The probability that these two pieces belong together like this";
const GAP = "The median distance between the two surfaces where they touch, in the unit of the files";
const CONTACT = "The points of both surfaces that touch the other one";
const AREA = "About, in the square of the unit of the files";

/** The colour of a value 0 .. 1 on the ramp, as [r, g, b] in 0 .. 255. */
function rampColor(ramp, value) {
  const place = value * (ramp.length - 1), below = Math.min(Math.floor(place), ramp.length - 2);
  return mix(bytesOf(ramp[below]), bytesOf(ramp[below + 1]), place - below).map(Math.round);
}

const bytesOf = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
const css = (color) => `rgb(${color.join(" ")})`;

class Panel {
  /** `act` holds what the controls do: alternative, colorBy, toggle, only, showAll, pick, pickPair. */
  constructor(data, act) {
    Object.assign(this, { data, act });
    byId("title").textContent = data.title;
    byId("summary").textContent = this.summary();
    byId("note").textContent = data.note;
    byId("note").hidden = !data.note;
    this.buildAlternatives();
    this.buildColors();
    this.buildPieces();
  }

  summary() {
    const { pieces, alternatives } = this.data, best = alternatives[0];
    const points = pieces.reduce((sum, piece) => sum + piece.count, 0);
    const parts = [`${placedOf(best)} pieces placed`, `${percent(best.probability)} sure`];
    if (alternatives.length > 1) parts.push(countOf(alternatives.length, "alternative"));
    return parts.concat(`${points.toLocaleString("en")} points drawn`).join(" \u00b7 ");
  }

  buildAlternatives() {
    const box = byId("alternatives");
    box.hidden = this.data.alternatives.length < 2;
    box.append(element("div", { className: "heads" },
      element("span", { title: PROBABILITY }, "Probability"), element("span", { title: SCORE }, "Score")));
    this.data.alternatives.forEach((alternative, i) => {
      const { probability, score } = alternative;
      const unplaced = alternative.placed.filter((placed) => !placed).length;
      box.append(element("label", { className: "row alternative" },
        element("input", { type: "radio", name: "alternative", checked: i === 0,
          onchange: () => this.act.alternative(i) }),
        element("b", {}, String(i + 1)),
        element("span", { className: "name" }, unplaced ? `${unplaced} not placed` : ""),
        element("span", { className: "meter", style: { "--value": probability } }),
        element("span", { className: "value", title: PROBABILITY }, percent(probability)),
        element("span", { className: "value faint", title: SCORE }, formatScore(score))));
    });
  }

  buildColors() {
    const box = byId("color-by");
    const choices = element("div", { className: "segments" });
    const { pieces } = this.data, kinds = [["piece", "By piece"], ["confidence", "By confidence"]];
    if (pieces.some(({ own }) => own)) kinds.push(["own", "Own colours"]);
    if (pieces.some(({ seam }) => seam)) kinds.push(["seams", "Gaps at seams"]);
    for (const [value, label] of kinds)
      choices.append(element("label", {},
        element("input", { type: "radio", name: "color-by", value, checked: value === "piece",
          onchange: () => this.act.colorBy(value) }),
        element("span", {}, label)));
    box.append(choices);
  }

  buildPieces() {
    const box = byId("pieces");
    this.rows = this.data.pieces.map((piece, i) => {
      const shown = element("input", { type: "checkbox", checked: true, onchange: () => this.act.toggle(i) });
      shown.setAttribute("aria-label", `Show ${piece.name}`);
      const swatch = element("span", { className: "swatch" });
      const name = element("button", { className: "name", title: piece.name, onclick: () => this.act.pick(i) });
      name.textContent = piece.name;
      const meter = element("span", { className: "meter" }), value = element("span", { className: "value" });
      const row = element("div", { className: "row piece" }, shown, swatch, name, meter, value);
      return { row, shown, swatch, name, meter, value };
    });
    box.append(element("div", { className: "list" }, ...this.rows.map(({ row }) => row)));
    box.append(element("div", { className: "buttons" },
      element("button", { id: "show-all", onclick: () => this.act.showAll() }, "Show all")));
  }

  update(state, colors) {
    const alternative = this.data.alternatives[state.alternative];
    this.rows.forEach((each, i) => {
      each.shown.checked = !state.hidden.has(i);
      each.swatch.style.setProperty("background", css(colors[i]));
      each.row.classList.toggle("picked", state.picked.includes(i));
      each.row.classList.toggle("hidden", state.hidden.has(i));
      each.name.setAttribute("aria-pressed", state.picked.includes(i));
      const placed = alternative.placed[i], confidence = alternative.confidence[i];
      each.meter.hidden = !placed;
      each.meter.style.setProperty("--value", confidence);
      each.value.textContent = placed ? percent(confidence) : "not placed";
      each.value.title = placed ? CONFIDENCE : alternative.whyUnplaced[i];
    });
    this.updateLegend(state, alternative);
    this.updatePicked(state, alternative);
    this.updateJoints(state, alternative);
    if (this.tabled !== state.alternative) this.buildNumbers(state.alternative);
  }

  /** The pairs that touch, the surest first; a click selects both pieces. */
  updateJoints(state, alternative) {
    const box = byId("joint-list"), isPicked = ({ pieces }) => samePair(pieces, state.picked);
    box.hidden = !alternative.joints.length;
    if (this.listed !== state.alternative) {
      this.joints = alternative.joints.map((joint) => this.jointRow(joint));
      box.replaceChildren(box.firstElementChild, element("div", { className: "heads" },
        element("span", { title: JOINT }, "Probability"), element("span", { title: GAP }, "Gap")), ...this.joints);
      this.listed = state.alternative;
    }
    this.joints.forEach((row, i) => {
      row.classList.toggle("picked", isPicked(alternative.joints[i]));
      row.firstElementChild.setAttribute("aria-pressed", isPicked(alternative.joints[i]));
    });
  }

  jointRow(joint) {
    const name = this.pairName(joint);
    return element("div", { className: "row joint" },
      element("button", { className: "name", title: name, onclick: () => this.act.pickPair(...joint.pieces) }, name),
      element("span", { className: "value", title: JOINT }, percent(joint.confidence)),
      element("span", { className: "value", title: GAP }, gapText(joint)));
  }

  pairName({ pieces: [i, j] }) { return `${this.data.pieces[i].name} \u2013 ${this.data.pieces[j].name}`; }

  updateLegend(state, alternative) {
    const box = byId("legend"), legend = this.legendOf(state), anyUnplaced = alternative.placed.includes(false);
    box.hidden = !anyUnplaced && !legend;
    box.replaceChildren();
    if (legend) box.append(element("div", { title: legend.explanation }, legend.title),
      element("div", { className: "ramp", style: { background: `linear-gradient(to right, ${legend.colors.join(", ")})` } }),
      element("div", { className: "ends" }, ...legend.ends.map((text) => element("span", {}, text))));
    if (anyUnplaced) box.append(element("div", { className: "key" },
      element("span", { className: "swatch", style: { background: this.data.unplacedColor } }), "Not placed"));
  }

  /** The ramp of the colours with its title and the texts below it; nothing if they are no ramp. */
  legendOf({ colorBy }) {
    const { ramp, topGap } = this.data;
    if (colorBy === "confidence")
      return { title: "Confidence", explanation: CONFIDENCE, colors: ramp, ends: ["0 %", "50 %", "100 %"] };
    if (colorBy !== "seams") return null;
    const ends = ["0", number(topGap / 2), `${number(topGap)} or more`];
    return { title: "Gap, in the unit of the files", explanation: "The distance between the two surfaces",
      colors: [...ramp].reverse(), ends };
  }

  updatePicked(state, alternative) {
    const box = byId("picked"), { picked } = state;
    box.hidden = !picked.length;
    if (!picked.length) return box.replaceChildren();
    const close = element("button", { className: "close", title: "Close (esc)", onclick: () => this.act.pick(-1) });
    close.textContent = "\u00d7";
    close.setAttribute("aria-label", "Close");
    const [title, facts, buttons] = picked.length > 1
      ? this.pairCard(picked, alternative) : this.pieceCard(picked[0], state, alternative);
    box.replaceChildren(close, element("h2", {}, title), definitions(facts),
      element("div", { className: "buttons" }, ...buttons));
  }

  pieceCard(i, state, alternative) {
    const pose = alternative.poses[i].map((row) => row.join(" ")).join("\n");
    return [this.data.pieces[i].name, this.factsOf(i, alternative), [
      element("button", { onclick: () => this.act.only(i) }, "Show only this piece"),
      element("button", { onclick: () => this.act.toggle(i) }, state.hidden.has(i) ? "Show" : "Hide"),
      copyButton("Copy pose", pose)]];
  }

  pairCard(picked, alternative) {
    const joint = alternative.joints.find(({ pieces }) => samePair(pieces, picked));
    const facts = joint ? [["Probability", percent(joint.confidence)], ["Gap", gapText(joint)],
      ["Contact", `${joint.points.toLocaleString("en")} points, area ${number(joint.area, 3)}`]]
      : [["Joint", "none in this alternative"]];
    return [this.pairName({ pieces: picked }), facts, [
      element("button", { onclick: () => this.act.only(...picked) }, "Show only these two")]];
  }

  factsOf(i, alternative) {
    const { angle, axis, center } = this.poseOf(i, alternative), { pieces } = this.data;
    const facts = [];
    if (!alternative.placed[i]) facts.push(["Not placed", "no fit was found; drawn below the others"]);
    else facts.push(["Confidence", percent(alternative.confidence[i])]);
    const joints = alternative.joints.filter((joint) => joint.pieces.includes(i)).map(({ pieces: [a, b], confidence }) =>
      `${pieces[a === i ? b : a].name} (${percent(confidence)})`);
    if (joints.length) facts.push(["Touches", joints.join(", ")]);
    if (alternative.placed[i]) facts.push(["Rotation", `${angle}\u00b0 about (${axis.join(", ")})`],
      ["Centre", `(${center.join(", ")})`]);
    return facts.concat([["Points", pieces[i].count.toLocaleString("en")]]);
  }

  /** The angle of the rotation in degrees, its axis, and the centre of the piece in the assembly, as text. */
  poseOf(i, alternative) {
    const pose = alternative.poses[i], [angle, axis] = angleAndAxis(pose), own = this.data.pieces[i].center;
    const center = pose.slice(0, 3).map((row) => row[0] * own[0] + row[1] * own[1] + row[2] * own[2] + row[3]);
    // To a ten-thousandth of the assembly.
    const digits = Math.min(Math.max(4 - Math.ceil(Math.log10(this.data.scale)), 0), 20);
    const fixed = (value, count) => minus(value.toFixed(count));
    return {
      angle: fixed(angle, 1),
      axis: axis.map((value) => fixed(value, 3)),
      center: center.map((value) => fixed(value, digits)),
    };
  }

  // -- the tables below the 3D view --------------------------------------------------------------------------

  buildNumbers(chosen) {
    const { alternatives, command, facts } = this.data, alternative = alternatives[chosen];
    const of = alternatives.length > 1 ? ` of alternative ${chosen + 1}` : "";
    const blocks = [block(`Pieces${of}`, this.pieceTable(alternative), "wide")];
    if (alternative.joints.length) blocks.push(block(`Joints${of}`, this.jointTable(alternative), "wide"));
    if (alternatives.length > 1) blocks.push(block("Alternatives", this.alternativeTable()));
    if (facts.length) blocks.push(block("Details", definitions(facts)));
    if (command) blocks.push(block("Command", element("div", { className: "command" },
      element("pre", { id: "command", tabIndex: 0 }, command), copyButton("Copy", command)), "wide"));
    byId("numbers").replaceChildren(...blocks);
    this.tabled = chosen;
  }

  pieceTable(alternative) {
    const heads = ["Piece", "Points", "Confidence", "Rotation", "Axis x", "y", "z", "Centre x", "y", "z"];
    return table(heads, this.data.pieces.map((piece, i) => {
      const { angle, axis, center } = this.poseOf(i, alternative), placed = alternative.placed[i];
      const confidence = placed ? percent(alternative.confidence[i]) : "not placed";
      const pose = [`${angle}\u00b0`, ...axis, ...center];
      return [piece.name, piece.count.toLocaleString("en"), confidence, ...(placed ? pose : pose.map(() => "\u2013"))];
    }));
  }

  jointTable(alternative) {
    const { pieces } = this.data;
    const heads = ["Piece", "Touches", ["Probability", JOINT], ["Gap", GAP], ["Contact points", CONTACT],
      ["Contact area", AREA]];
    return table(heads, alternative.joints.map((joint) => [
      ...joint.pieces.map((i) => pieces[i].name), percent(joint.confidence), gapText(joint),
      joint.points.toLocaleString("en"), number(joint.area, 3)]), 2);
  }

  alternativeTable() {
    return table(["Rank", "Probability", "Score", "Pieces placed"], this.data.alternatives.map((each, i) => [
      String(i + 1), percent(each.probability), formatScore(each.score), placedOf(each)]));
  }
}

const samePair = (pair, picked) => picked.length === 2 && pair.every((i) => picked.includes(i));
const gapText = ({ gap }) => (gap === null ? "\u2013" : number(gap, 2));

const definitions = (facts) => element("dl", {}, ...facts.map(([label, text]) =>
  element("div", {}, element("dt", {}, label), element("dd", {}, text))));

const block = (title, content, className = "") => element("section", { className }, element("h2", {}, title), content);

/** Rows of text; the first columns are words, the others numbers. A head may have an explanation. */
function table(heads, rows, words = 1) {
  const cell = (tag, content, i) => {
    const [text, title = ""] = [content].flat();
    return element(tag, { className: i < words ? "" : "figure", title }, text);
  };
  return element("div", { className: "scrolling", tabIndex: 0 }, element("table", {},
    element("thead", {}, element("tr", {}, ...heads.map((text, i) => cell("th", text, i)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((text, i) => cell("td", text, i)))))));
}

function copyButton(label, text) {
  const button = element("button", { className: "copy" }, label);
  button.onclick = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch { // not allowed: the older way
      const area = element("textarea", { value: text, className: "unseen" });
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = label; }, 1500);
  };
  return button;
}
