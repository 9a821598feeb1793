"use strict";
// The painter draws pieces into a canvas, and finds the piece at a point of it.

const NEAR = EYE - 1.6, FAR = EYE + 1.6; // everything lies in a ball of radius 1, apart from the size of a disc
const DEPTHS = [(FAR + NEAR) / (FAR - NEAR), (-2 * FAR * NEAR) / (FAR - NEAR)];

class Painter {
  /** Throws if the browser cannot draw. */
  constructor(canvas, pieces) {
    const gl = canvas.getContext("webgl2", { antialias: false, depth: false });
    if (!gl) throw new Error("WebGL 2 is switched off or missing");
    if (!gl.getExtension("EXT_color_buffer_float") && !gl.getExtension("EXT_color_buffer_half_float"))
      throw new Error("the graphics driver has no floating point targets");
    [this.gl, this.canvas] = [gl, canvas];
    this.pieceProgram = new Program(gl, PIECE_VERTEX, PIECE_FRAGMENT);
    this.pictureProgram = new Program(gl, PICTURE_VERTEX, PICTURE_FRAGMENT);
    this.nothing = { ids: texture(gl, gl.RGBA8, 1, 1), surface: texture(gl, gl.RGBA16F, 1, 1) };
    this.pieces = pieces.map((piece) => this.upload(piece));
    this.colors = texture(gl);
    this.seams = pieces.map(({ seam }) => seam && this.uploadPoints({ ...seam, isMesh: false, faces: null }));
    this.targets = null; // two, before and after overhanging discs are removed
  }

  upload(piece) {
    const { own } = piece, isMesh = piece.faces !== null;
    const colors = isMesh && own ? { colors: own.colors, imagePlaces: own.imagePlaces } : {};
    const result = this.uploadPoints({ ...piece, ...colors, isMesh });
    result.skins = isMesh ? this.skins(own, result.corners) : [{ corners: result.corners, image: null }];
    result.paint = own && !isMesh ? this.uploadPoints({ ...own, isMesh: false, faces: null }) : null;
    return result;
  }

  /** Vertices with their triangles: a mesh, or a square for every point. */
  uploadPoints(points) {
    const gl = this.gl, array = gl.createVertexArray(), { isMesh } = points;
    gl.bindVertexArray(array);
    this.attribute("place", 3, gl.UNSIGNED_SHORT, decode(points.places, Uint16Array), isMesh);
    this.attribute("shape", 4, gl.BYTE, decode(points.shapes, Int8Array), isMesh);
    if (points.colors) this.attribute("color", 4, gl.UNSIGNED_BYTE, withAlpha(decode(points.colors, Uint8Array)), isMesh);
    if (points.imagePlaces)
      this.attribute("imagePlace", 2, gl.FLOAT, decode(points.imagePlaces, Float32Array), isMesh);
    const triangles = isMesh ? decode(points.faces, Uint32Array) : squares(points.count);
    buffer(gl, gl.ELEMENT_ARRAY_BUFFER, triangles);
    gl.bindVertexArray(null);
    return { ...points, array, corners: triangles.length };
  }

  attribute(name, size, type, values, isMesh) {
    const gl = this.gl, place = gl.getAttribLocation(this.pieceProgram.program, name);
    buffer(gl, gl.ARRAY_BUFFER, repeatRows(values, size, isMesh ? 1 : 4));
    gl.enableVertexAttribArray(place);
    gl.vertexAttribPointer(place, size, type, true, 0, 0);
  }

  /** Runs of corners with a picture each, which is there once it is decoded. */
  skins(own, corners) {
    if (!own) return [{ corners, image: null }];
    return own.skins.map(({ faces, image }) => {
      const skin = { corners: 3 * faces, image: null };
      if (image) loadImage(image).then((loaded) => { skin.image = imageTexture(this.gl, loaded); this.onImage?.(); });
      return skin;
    });
  }

  /** The colours of the seams' points: bytes [r, g, b, a] for every piece, or null. */
  setSeamColors(colors) {
    const gl = this.gl;
    this.seams.forEach((seam, i) => {
      if (!seam) return;
      gl.bindVertexArray(seam.array);
      gl.deleteBuffer(seam.colorBuffer ?? null);
      this.attribute("color", 4, gl.UNSIGNED_BYTE, colors[i], false);
      seam.colorBuffer = gl.getParameter(gl.ARRAY_BUFFER_BINDING);
      gl.bindVertexArray(null);
    });
  }

  /** One [r, g, b, saturation] for every piece, 0 .. 255. */
  setColors(colors) {
    const gl = this.gl;
    gl.bindTexture(gl.TEXTURE_2D, this.colors);
    const bytes = new Uint8Array(colors.flat());
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8, colors.length, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, bytes);
  }

  /** `scene`: poses, visible, picked, accent, what the colours show, and the view (rotation, middle, radius, zoom, pan).
      `trimmed`: without overhanging discs, which takes twice the time. */
  draw(scene, samples, trimmed) {
    const gl = this.gl, { canvas } = this, view = scene.view;
    const width = canvas.width * samples, height = canvas.height * samples;
    this.resize(width, height);
    gl.viewport(0, 0, width, height);
    gl.enable(gl.DEPTH_TEST);
    gl.depthFunc(gl.LEQUAL); // a mesh is as deep in the surface pass as it was in that of the ids
    const least = Math.min(width, height);
    const use = this.pieceProgram.use();
    use.lens(view.zoom, view.pan[0], view.pan[1]);
    use.aspect(least / width, least / height);
    use.depths(...DEPTHS);
    const closeness = 2 / (least * view.zoom);
    use.closeness(closeness);
    const [thick, final] = this.targets;
    if (trimmed) this.passes(thick, this.nothing, scene);
    this.passes(final, trimmed ? thick : this.nothing, scene);
    gl.disable(gl.DEPTH_TEST);
    this.paint(final, scene);
    this.finish(scene, samples, closeness);
  }

  /** Draw ids and surface into `target`, without the discs that were too sparse in `before`. */
  passes(target, before, scene) {
    const gl = this.gl;
    this.pass(target.idFrame, before, scene, true);
    gl.depthMask(false);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE);
    this.pass(target.surfaceFrame, { ids: target.ids, surface: this.nothing.surface }, scene, false);
    gl.disable(gl.BLEND);
    gl.depthMask(true);
  }

  pass(frame, { ids, surface }, scene, forIds) {
    const gl = this.gl, use = this.pieceProgram.use();
    gl.bindFramebuffer(gl.FRAMEBUFFER, frame);
    this.bind(use, { ids, surface, image: this.nothing.ids });
    gl.clearColor(0, 0, 0, 0);
    gl.clear(forIds ? gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT : gl.COLOR_BUFFER_BIT);
    use.forIds(forIds);
    use.forPaint(false);
    this.pieces.forEach((piece, i) => {
      if (scene.visible[i]) this.drawPiece(piece, i, scene, piece.isMesh && Boolean(piece.own) && scene.colorBy === "own");
    });
  }

  /** Add coloured discs to the tint of the surface that is in `target`. */
  paint(target, scene) {
    const gl = this.gl, use = this.pieceProgram.use();
    const paints = { own: this.pieces.map((piece) => piece.paint), seams: this.seams }[scene.colorBy] ?? [];
    gl.bindFramebuffer(gl.FRAMEBUFFER, target.tintFrame);
    this.bind(use, { ids: target.ids, surface: this.nothing.surface, image: this.nothing.ids });
    use.forIds(false);
    use.forPaint(true);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE);
    paints.forEach((paint, i) => {
      if (!paint || !scene.visible[i]) return;
      use.closeToSurface(this.pieces[i].disc / scene.view.radius);
      this.drawPiece({ ...paint, skins: [{ corners: paint.corners, image: null }] }, i, scene, false);
    });
    gl.disable(gl.BLEND);
  }

  /** Textures for the uniforms of the same names. */
  bind(use, textures) {
    const gl = this.gl;
    Object.entries(textures).forEach(([name, each], unit) => {
      gl.activeTexture(gl.TEXTURE0 + unit);
      gl.bindTexture(gl.TEXTURE_2D, each);
      use[name](unit);
    });
  }

  drawPiece(piece, i, { poses, view }, inOwnColors) {
    const gl = this.gl, use = this.pieceProgram.use();
    const offset = poses[i].center.map((value, k) => (value - view.middle[k]) / view.radius);
    use.turn(product(view.rotation, matrixOf(poses[i].turn)));
    use.center(...rotate(view.rotation, offset));
    use.low(...piece.low);
    use.extent(...piece.extent);
    use.scale(1 / view.radius);
    use.disc(piece.disc);
    use.isMesh(piece.isMesh);
    use.oriented(piece.oriented);
    use.faceted(piece.isMesh && !piece.oriented);
    use.id(i + 1);
    use.inOwnColors(inOwnColors);
    gl.bindVertexArray(piece.array);
    let first = 0;
    for (const { corners, image } of piece.skins) {
      use.hasImage(Boolean(image));
      gl.activeTexture(gl.TEXTURE2); // after the ids and the surface
      gl.bindTexture(gl.TEXTURE_2D, image ?? this.nothing.ids);
      gl.drawElements(gl.TRIANGLES, corners, gl.UNSIGNED_INT, 4 * first);
      first += corners;
    }
  }

  finish(scene, samples, closeness) {
    const gl = this.gl, use = this.pictureProgram.use();
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    const { ids, surface, tint } = this.targets[1];
    this.bind(use, { ids, surface, tint, colors: this.colors });
    use.samples(samples);
    use.picked((scene.picked[0] ?? -1) + 1);
    use.partner((scene.picked[1] ?? -1) + 1);
    use.pixel((samples * this.canvas.width) / this.canvas.clientWidth);
    use.closeness(closeness);
    use.accent(...scene.accent);
    gl.bindVertexArray(null);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
  }

  /** The piece at a point of the canvas, 0 .. 1 from the top left; -1 if there is none. */
  pieceAt(x, y) {
    if (!this.targets) return -1;
    const gl = this.gl, { width, height, idFrame } = this.targets[1], value = new Uint8Array(4);
    gl.bindFramebuffer(gl.FRAMEBUFFER, idFrame);
    gl.readPixels(Math.floor(x * width), Math.floor((1 - y) * height), 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, value);
    return value[0] + 256 * value[1] - 1;
  }

  resize(width, height) {
    const gl = this.gl;
    if (this.targets && this.targets[0].width === width && this.targets[0].height === height) return;
    this.targets?.forEach(({ textures, frames }) => {
      textures.forEach((each) => gl.deleteTexture(each));
      frames.forEach((each) => gl.deleteFramebuffer(each));
    });
    this.targets = [0, 1].map(() => this.target(width, height));
  }

  target(width, height) {
    const gl = this.gl, formats = [gl.RGBA8, gl.RGBA16F, gl.RGBA16F, gl.DEPTH_COMPONENT24];
    const textures = formats.map((format) => texture(gl, format, width, height)), [ids, surface, tint, depth] = textures;
    const frames = [[ids], [surface, tint], [tint]].map((colors) => {
      const frame = gl.createFramebuffer();
      gl.bindFramebuffer(gl.FRAMEBUFFER, frame);
      const places = colors.map((_, i) => gl.COLOR_ATTACHMENT0 + i);
      colors.forEach((color, i) => gl.framebufferTexture2D(gl.FRAMEBUFFER, places[i], gl.TEXTURE_2D, color, 0));
      gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.DEPTH_ATTACHMENT, gl.TEXTURE_2D, depth, 0);
      gl.drawBuffers(places);
      return frame;
    });
    const [idFrame, surfaceFrame, tintFrame] = frames;
    return { width, height, ids, surface, tint, idFrame, surfaceFrame, tintFrame, textures, frames };
  }
}

/** A shader program; `use()` switches to it and gives a setter for every uniform. */
class Program {
  constructor(gl, vertex, fragment) {
    this.gl = gl;
    this.program = gl.createProgram();
    for (const [type, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
      const shader = gl.createShader(type);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
      gl.attachShader(this.program, shader);
    }
    gl.linkProgram(this.program);
    if (!gl.getProgramParameter(this.program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(this.program));
    this.setters = this.uniformSetters();
  }

  use() {
    this.gl.useProgram(this.program);
    return this.setters;
  }

  uniformSetters() {
    const gl = this.gl, setters = {};
    const kinds = {
      [gl.FLOAT]: "uniform1f", [gl.FLOAT_VEC2]: "uniform2f", [gl.FLOAT_VEC3]: "uniform3f",
      [gl.INT]: "uniform1i", [gl.BOOL]: "uniform1i", [gl.SAMPLER_2D]: "uniform1i",
    };
    const count = gl.getProgramParameter(this.program, gl.ACTIVE_UNIFORMS);
    for (let i = 0; i < count; i++) {
      const { name, type } = gl.getActiveUniform(this.program, i);
      const place = gl.getUniformLocation(this.program, name);
      setters[name] = type === gl.FLOAT_MAT3 // ours are row by row
        ? (matrix) => gl.uniformMatrix3fv(place, true, matrix)
        : (...values) => gl[kinds[type]](place, ...values);
    }
    return setters;
  }
}

function buffer(gl, target, values) {
  gl.bindBuffer(target, gl.createBuffer());
  gl.bufferData(target, values, gl.STATIC_DRAW);
}

/** Colours of three bytes, with a fourth that says that they are seen. */
function withAlpha(colors) {
  const result = new Uint8Array((colors.length / 3) * 4).fill(255);
  for (let i = 0; i < colors.length; i++) result[Math.floor(i / 3) * 4 + (i % 3)] = colors[i];
  return result;
}

function loadImage(address) {
  const image = new Image();
  image.src = address;
  return image.decode().then(() => image);
}

/** The picture as a texture that repeats and looks smooth from afar. */
function imageTexture(gl, image) {
  const result = gl.createTexture();
  gl.activeTexture(gl.TEXTURE2);
  gl.bindTexture(gl.TEXTURE_2D, result);
  gl.pixelStorei(gl.UNPACK_FLIP_Y_WEBGL, true);
  gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8, gl.RGBA, gl.UNSIGNED_BYTE, image);
  gl.pixelStorei(gl.UNPACK_FLIP_Y_WEBGL, false);
  gl.generateMipmap(gl.TEXTURE_2D);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.LINEAR_MIPMAP_LINEAR);
  return result;
}

/** Every row of `size` values repeated so many times. */
function repeatRows(values, size, times) {
  const result = new values.constructor(values.length * times);
  for (let i = 0; i < result.length; i++) result[i] = values[Math.floor(i / (size * times)) * size + (i % size)];
  return result;
}

/** Two triangles for every four vertices. */
function squares(count) {
  return Uint32Array.from({ length: 6 * count }, (_, i) => 4 * Math.floor(i / 6) + [0, 1, 2, 2, 1, 3][i % 6]);
}

function texture(gl, format, width, height) {
  const result = gl.createTexture();
  gl.bindTexture(gl.TEXTURE_2D, result);
  for (const filter of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER])
    gl.texParameteri(gl.TEXTURE_2D, filter, gl.NEAREST);
  if (format) gl.texStorage2D(gl.TEXTURE_2D, 1, format, width, height);
  return result;
}
