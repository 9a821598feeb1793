"use strict";
// Shaders. A frame is made in passes:
//   ids      the visible piece in a pixel, and its height (towards the viewer); discs one radius lower than they are
//   surface  all discs of that piece above this height, blended: many discs become one smooth surface
//   both again, without what is too sparse to be a surface: single discs that overhang where one ends
//   paint    coloured discs on the visible surface, blended: seams, and the own colours of pieces drawn as discs
//   picture  colour, light, shade in hollows and behind edges, seams, and the outline of the selected pieces
// Lengths are in radii of the scene; the axes are right, up and towards the viewer.

const EYE = 6; // distance of the eye from the centre, in radii

// A mesh is drawn with its own vertices. A point comes four times, as the corners of a square with a disc in it.
const PIECE_VERTEX = `#version 300 es
in vec3 place;  // in the box of the piece, 0 .. 1
in vec4 shape;  // normal, and the radius of the disc over the largest one
in vec4 color;  // its own; of paint, nothing is drawn where the last is 0
in vec2 imagePlace;
uniform vec3 low, extent;
uniform mat3 turn;
uniform vec3 center;
uniform float scale, disc;
uniform bool oriented, isMesh, forIds, forPaint;
uniform vec3 lens;      // zoom, and the position of the centre in the picture
uniform vec2 aspect, depths;
out vec3 at, normal;
out vec2 inDisc;
out float height, radius;
out vec4 own;
out vec2 onImage;

void main() {
  own = color;
  onImage = imagePlace;
  vec3 middle = scale * (turn * (low + extent * place)) + center;
  normal = turn * shape.xyz;
  bool away = dot(normal, vec3(0, 0, ${EYE}) - middle) < 0.0;
  if (away) normal = -normal;
  // A disc seen from its edge keeps some of its width, or outlines would fall apart.
  vec3 upright = normalize(normal + vec3(0, 0, max(0.3 - normal.z, 0.0)));
  vec3 across = normalize(cross(abs(upright.y) < 0.9 ? vec3(0, 1, 0) : vec3(1, 0, 0), upright));
  radius = scale * disc * shape.w;
  vec2 corner = vec2(gl_VertexID & 1, gl_VertexID >> 1 & 1) * 2.0 - 1.0;
  inDisc = isMesh ? vec2(0) : corner * (forIds ? 0.9 : 1.0); // its inner part decides the id, all of it is blended
  at = middle + radius * (inDisc.x * across + inDisc.y * cross(upright, across));
  float eye = ${EYE}.0 - at.z;
  // What faces away steps back, so that thin walls show their near side.
  height = at.z - (away && oriented && !forPaint ? radius : 0.0);
  float deep = ${EYE}.0 - height + (forIds ? radius : 0.0);
  vec2 flatPlace = at.xy * ${EYE}.0 / eye * lens.x + lens.yz;
  gl_Position = vec4(flatPlace * aspect, depths.x + depths.y / deep, 1) * eye;
  if (forPaint && (color.a == 0.0 || (away && oriented))) gl_Position = vec4(2, 2, 2, 1); // not in the picture
}`;

// A piece and a height -2 .. 2 in the four bytes of a pixel.
const PACKING = `
vec4 packed(int id, float height) {
  int level = int(clamp((height + 2.0) / 4.0, 0.0, 1.0) * 65535.0);
  return vec4(id & 255, id >> 8, level & 255, level >> 8) / 255.0;
}
ivec4 bytesOf(vec4 pixel) { return ivec4(pixel * 255.0 + 0.5); }
int idOf(vec4 pixel) { ivec4 b = bytesOf(pixel); return b.x + 256 * b.y; }
float heightOf(vec4 pixel) { ivec4 b = bytesOf(pixel); return float(b.z + 256 * b.w) / 65535.0 * 4.0 - 2.0; }`;

const PIECE_FRAGMENT = `#version 300 es
precision highp float;
${PACKING}
const float DENSE = 0.4; // weight of the discs at a pixel: 2.5 inside a surface, half of it where one ends, on average
in vec3 at, normal;
in vec2 inDisc;
in float height, radius;
in vec4 own;
in vec2 onImage;
uniform int id;
uniform bool forIds, forPaint, faceted, isMesh;
uniform bool inOwnColors, hasImage;
uniform float closeToSurface; // paint sticks to a surface that is so near, in radii
uniform float closeness; // the width of a sample in radii
uniform sampler2D ids, surface; // of the previous pass; empty for the first
uniform sampler2D image;
layout(location = 0) out vec4 result;
layout(location = 1) out vec4 tint; // of the surface pass: its own colours, with the weight that they have

bool denseAt(ivec2 p) { return texelFetch(surface, p, 0).w > DENSE && idOf(texelFetch(ids, p, 0)) == id; }

// Whether the surface of the previous pass ended here. A sparse spot between dense ones on opposite sides is a gap.
bool hangsOver(ivec2 p) {
  vec4 front = texelFetch(ids, p, 0);
  if (idOf(front) == 0 || denseAt(p) || height < heightOf(front) - radius) return false;
  const ivec2 ways[4] = ivec2[](ivec2(1, 0), ivec2(1, 1), ivec2(0, 1), ivec2(-1, 1));
  int reach = int(0.8 * radius / closeness) + 1;
  for (int i = 0; i < 4; i++)
    if (denseAt(p + reach * ways[i]) && denseAt(p - reach * ways[i])) return false;
  return true;
}

void main() {
  float away = dot(inDisc, inDisc);
  if (away > (forIds ? 0.8 : 1.0)) discard;
  ivec2 here = ivec2(gl_FragCoord.xy);
  if (forIds) {
    if (!isMesh && hangsOver(here)) discard;
    result = packed(id, height);
    return;
  }
  vec4 front = texelFetch(ids, here, 0);
  if (idOf(front) != id) discard;
  vec3 n = normalize(faceted ? cross(dFdx(at), dFdy(at)) : normal);
  float weight = (1.0 - away) * (1.0 - away) * (1.0 - away) + 1e-3;
  if (forPaint) {
    if (abs(height - heightOf(front)) > closeToSurface + radius) discard;
    result = vec4(own.rgb, 1) * weight;
    return;
  }
  tint = inOwnColors ? vec4(hasImage ? texture(image, onImage).rgb : own.rgb, 1) * weight : vec4(0);
  // Only the difference to the height of the first pass: half a float holds no more.
  result = vec4(n.xy, height - heightOf(front), 1) * weight;
}`;

const PICTURE_VERTEX = `#version 300 es
void main() { gl_Position = vec4(vec2(gl_VertexID & 1, gl_VertexID >> 1) * 4.0 - 1.0, 0, 1); }`;

const PICTURE_FRAGMENT = `#version 300 es
precision highp float;
${PACKING}
uniform sampler2D ids, surface, tint, colors;
uniform int samples, picked, partner;
uniform float pixel;    // the width of a CSS pixel in samples
uniform float closeness; // the width of a sample in radii
uniform vec3 accent;
out vec4 result;

const vec3 KEY = normalize(vec3(-0.45, 0.62, 0.64));
const vec3 HALFWAY = normalize(KEY + vec3(0, 0, 1));

ivec2 inside(ivec2 p) { return clamp(p, ivec2(0), textureSize(ids, 0) - 1); }
int pieceAt(ivec2 p) { return idOf(texelFetch(ids, inside(p), 0)); }
// In samples.
float heightAt(ivec2 p) {
  vec4 front = texelFetch(ids, inside(p), 0), blended = texelFetch(surface, inside(p), 0);
  return front == vec4(0) ? -1e6 : (heightOf(front) + blended.z / max(blended.w, 1e-3)) / closeness;
}

// The share of the sky that the surroundings hide. Opposite neighbours count together, so a slope hides nothing.
float hidden(ivec2 p, float height, float reach) {
  const vec2 ways[4] = vec2[](vec2(1, 0), vec2(0.7, 0.7), vec2(0, 1), vec2(-0.7, 0.7));
  float sum = 0.0;
  for (int i = 0; i < 4; i++) {
    ivec2 step = ivec2(round(ways[i] * reach));
    float rise = clamp((heightAt(p + step) - height) / reach, -1.0, 1.0);
    float fall = clamp((heightAt(p - step) - height) / reach, -1.0, 1.0);
    sum += clamp(rise + fall, 0.0, 1.0);
  }
  return sum / 4.0;
}

// One outline around two selected pieces.
bool isPicked(int piece) { return piece != 0 && (piece == picked || piece == partner); }

bool onOutline(ivec2 p, int piece, int reach) {
  if (picked == 0) return false;
  for (int i = -1; i <= 1; i++)
    for (int j = -1; j <= 1; j++)
      if (isPicked(pieceAt(p + reach * ivec2(i, j))) != isPicked(piece)) return true;
  return false;
}

vec4 look(ivec2 p) {
  int piece = pieceAt(p);
  if (onOutline(p, piece, int(ceil(1.2 * pixel)))) return vec4(accent, 1);
  if (piece == 0) return vec4(0);
  vec4 color = texelFetch(colors, ivec2(piece - 1, 0), 0), tinted = texelFetch(tint, p, 0);
  color.rgb = mix(color.rgb, tinted.rgb / max(tinted.a, 1e-3), clamp(tinted.a / 0.4, 0.0, 1.0));
  vec4 blended = texelFetch(surface, p, 0);
  vec2 tilt = blended.xy / max(blended.w, 1e-3);
  vec3 n = normalize(vec3(tilt, sqrt(max(1.0 - dot(tilt, tilt), 0.0))));
  float height = heightAt(p);
  float light = 0.66 + 0.10 * n.y + 0.46 * max(dot(n, KEY), 0.0);
  light *= 1.0 - 0.45 * hidden(p, height, 2.0 * pixel);
  light *= 1.0 - 0.50 * hidden(p, height, 10.0 * pixel);
  vec3 shaded = color.rgb * light + 0.06 * pow(max(dot(n, HALFWAY), 0.0), 24.0);
  return vec4(mix(vec3(dot(shaded, vec3(0.3, 0.6, 0.1))), shaded, color.a), 1);
}

void main() {
  vec4 sum = vec4(0);
  ivec2 first = ivec2(gl_FragCoord.xy) * samples;
  for (int i = 0; i < samples; i++)
    for (int j = 0; j < samples; j++) sum += look(first + ivec2(i, j));
  result = sum / float(samples * samples);
}`;
