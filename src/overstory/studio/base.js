"use strict";
// What the pictures share: the data, two layers of it (every broker; regions), and how numbers are told.
const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const { names, points, ends, prices, delays, regions } = data;
const pairs = ends.length / 2;
const counts = (text) => (pairs ? text.split(",").map((value) => (value ? parseInt(value, 36) : 0)) : []);
const plans = data.plans.map((each) => ({ ...each, bytes: counts(each.bytes), frames: counts(each.frames) }));
const [WIDTH, HEIGHT] = data.size;
const CLASSES = 6, SHADES = 3;

const count = (value) => value.toLocaleString("en");
const known = (value) => (value === null ? "–" : count(value));
const counted = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

function size(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  for (; bytes >= 1000 && unit < units.length - 1; unit++) bytes /= 1000;
  return `${bytes.toLocaleString("en", { maximumFractionDigits: unit && bytes < 100 ? 1 : 0 })} ${units[unit]}`;
}

/** Bytes, or frames where events have no bytes. */
const carried = (plan) => (plan.bytes.some(Boolean) ? plan.bytes : plan.frames);
const told = (plan) => (plan.bytes.some(Boolean) ? size : (value) => counted(value, "frame"));

/** A layer: what stands where, and what each of its lines carries both ways. */
const every = {
  names, points, ends,
  radius: () => 0,
  loads: (plan) => Array.from({ length: pairs }, (_, pair) => carried(plan)[2 * pair] + carried(plan)[2 * pair + 1]),
};
const areas = regions && {
  ...regions,
  radius: (region) => regions.radii[region],
  loads: (plan) => {
    const sums = Array(regions.ends.length / 2).fill(0);
    every.loads(plan).forEach((load, pair) => { if (regions.pairOf[pair] >= 0) sums[regions.pairOf[pair]] += load; });
    return sums;
  },
};
const main = areas || every;

const xOf = (layer, at) => layer.points[2 * at];
const yOf = (layer, at) => layer.points[2 * at + 1];
const lineOf = (layer, pair) => {
  const [a, b] = [layer.ends[2 * pair], layer.ends[2 * pair + 1]];
  return `M${xOf(layer, a)} ${yOf(layer, a)}L${xOf(layer, b)} ${yOf(layer, b)}`;
};
const dotOf = (layer, at) => `M${xOf(layer, at)} ${yOf(layer, at)}h0`;
const widthOf = (load, most) => (load ? Math.ceil(CLASSES * Math.sqrt(load / most)) : 0);
const largest = (values) => values.reduce((most, value) => Math.max(most, value), 0);

/** A shape of an SVG picture. */
function shape(tag, attributes) {
  const made = document.createElementNS($("map").namespaceURI, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

/** Regions, each with the number of its brokers in it. */
function circles() {
  const many = areas.names.map(() => 0);
  areas.of.forEach((region) => many[region]++);
  return areas.names.flatMap((_, at) => {
    const text = shape("text", { x: xOf(areas, at), y: yOf(areas, at), dy: ".35em", "text-anchor": "middle", "font-size": 0.72 * areas.radius(at) });
    text.textContent = count(many[at]);
    return [shape("circle", { cx: xOf(areas, at), cy: yOf(areas, at), r: areas.radius(at) }), text];
  });
}

/** Brokers or regions, those with most traffic under a plan first. */
function busiest(layer, plan) {
  const sums = layer.names.map(() => 0), loads = layer.loads(plan);
  layer.ends.forEach((place, at) => (sums[place] += loads[at >> 1]));
  return [...layer.names.keys()].sort((a, b) => sums[b] - sums[a] || a - b);
}
const busiestLines = (layer, plan) => {
  const loads = layer.loads(plan);
  return [...loads.keys()].sort((a, b) => loads[b] - loads[a] || a - b);
};

/** The number within ``many`` that is nearest, below ``reach``; -1 if none is. */
function nearest(many, distance, reach) {
  let best = -1;
  for (let each = 0; each < many; each++) {
    const far = distance(each);
    if (far < reach) [best, reach] = [each, far];
  }
  return best;
}

function distanceToLine(layer, p, pair) {
  const [a, b] = [layer.ends[2 * pair], layer.ends[2 * pair + 1]];
  const [dx, dy] = [xOf(layer, b) - xOf(layer, a), yOf(layer, b) - yOf(layer, a)];
  const along = ((p.x - xOf(layer, a)) * dx + (p.y - yOf(layer, a)) * dy) / (dx * dx + dy * dy || 1);
  const t = Math.max(0, Math.min(1, along));
  return Math.hypot(p.x - xOf(layer, a) - t * dx, p.y - yOf(layer, a) - t * dy);
}

const within = (svg, event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
