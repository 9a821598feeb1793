"use strict";
// Rigid motions. A rotation is a quaternion [x, y, z, w] or a matrix of nine numbers, row by row.

function decode(text, ArrayType) {
  return new ArrayType(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
}

const mix = (a, b, t) => a.map((value, i) => value + (b[i] - value) * t);

function slerp(a, b, t) {
  let cosine = a.reduce((sum, value, i) => sum + value * b[i], 0);
  const sign = cosine < 0 ? -1 : 1; // b and -b are the same rotation: take the shorter path
  cosine = Math.min(cosine * sign, 1);
  const angle = Math.acos(cosine);
  if (angle < 1e-4) return b.map((value) => value * sign);
  const [from, to] = [Math.sin((1 - t) * angle) / Math.sin(angle), (sign * Math.sin(t * angle)) / Math.sin(angle)];
  return a.map((value, i) => from * value + to * b[i]);
}

function matrixOf([x, y, z, w]) {
  return [
    1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w),
    2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w),
    2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y),
  ];
}

/** The rotation by an angle about the axis 0 (right), 1 (up) or 2 (towards the viewer). */
function turnAbout(axis, angle) {
  const half = [0, 0, 0, Math.cos(angle / 2)];
  half[axis] = Math.sin(angle / 2);
  return matrixOf(half);
}

const product = (a, b) => [0, 3, 6].flatMap((row) => [0, 1, 2].map((column) =>
  a[row] * b[column] + a[row + 1] * b[column + 3] + a[row + 2] * b[column + 6]));

const rotate = (m, [x, y, z]) => [0, 3, 6].map((row) => m[row] * x + m[row + 1] * y + m[row + 2] * z);

/** The angle in degrees and the unit axis of the rotation of a pose, given as rows of four. */
function angleAndAxis(pose) {
  const trace = pose[0][0] + pose[1][1] + pose[2][2];
  const angle = Math.acos(Math.max(-1, Math.min(1, (trace - 1) / 2)));
  const skew = [pose[2][1] - pose[1][2], pose[0][2] - pose[2][0], pose[1][0] - pose[0][1]];
  const length = Math.hypot(...skew);
  if (length > 1e-6) return [(angle * 180) / Math.PI, skew.map((value) => value / length)];
  if (angle < 1) return [0, [0, 0, 1]];
  // A half turn: the symmetric part is 2 a a^T - 1; its longest column is along the axis.
  const columns = [0, 1, 2].map((j) => [0, 1, 2].map((i) => (pose[i][j] + (i === j ? 1 : 0)) / 2));
  const best = columns.reduce((a, b) => (Math.hypot(...a) > Math.hypot(...b) ? a : b));
  return [180, best.map((value) => value / Math.hypot(...best))];
}

/** The rotation and centre of every piece at a time between 0, the random start, and 1, assembled. */
class Track {
  constructor(text, frames, pieces) {
    this.values = decode(text, Float32Array); // (frames, pieces, 7)
    this.frames = frames;
    this.pieces = pieces;
  }

  at(time) {
    const place = time * (this.frames - 1);
    const frame = Math.min(Math.floor(place), Math.max(this.frames - 2, 0));
    const next = Math.min(frame + 1, this.frames - 1);
    return Array.from({ length: this.pieces }, (_, piece) =>
      between(this.pose(frame, piece), this.pose(next, piece), place - frame));
  }

  pose(frame, piece) {
    const values = Array.from(this.values.subarray((frame * this.pieces + piece) * 7).subarray(0, 7));
    return { turn: values.slice(0, 4), center: values.slice(4) };
  }
}

const between = (a, b, t) => ({ turn: slerp(a.turn, b.turn, t), center: mix(a.center, b.center, t) });

/** The poses with every piece moved away from the common centre, without rotation. */
function explode(poses, amount) {
  const sum = poses.reduce((total, pose) => total.map((value, i) => value + pose.center[i]), [0, 0, 0]);
  const middle = sum.map((value) => value / poses.length);
  return poses.map((pose) => ({ turn: pose.turn, center: mix(middle, pose.center, 1 + amount) }));
}
