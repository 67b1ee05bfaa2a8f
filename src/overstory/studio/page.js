"use strict";
// Redraws the picture for another plan or tree, and says what lies under the pointer or the arrow keys.
const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const { names, points, ends, prices, delays, plans } = data;
const pairs = ends.length / 2;
const map = $("map"), stage = $("stage"), tip = $("tip");
const REACH = 9; // pixels around the pointer
const SPARSE = 100; // brokers with members, up to which there is room for large dots

const x = (broker) => points[2 * broker];
const y = (broker) => points[2 * broker + 1];
const line = (pair) => `M${x(ends[2 * pair])} ${y(ends[2 * pair])}L${x(ends[2 * pair + 1])} ${y(ends[2 * pair + 1])}`;
const plan = () => plans[$("plan").value];
const count = (value) => value.toLocaleString("en");
const known = (value) => (value === null ? "–" : count(value));

function size(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  for (; bytes >= 1000 && unit < units.length - 1; unit++) bytes /= 1000;
  return `${bytes.toLocaleString("en", { maximumFractionDigits: unit && bytes < 100 ? 1 : 0 })} ${units[unit]}`;
}

const dot = (broker) => `M${x(broker)} ${y(broker)}h0`;
const chosenTree = () => plan().trees[$("chosen").value]; // undefined while the traffic of all flows is shown

/** The numbers of the bits that are set. */
function numbersIn(encoded) {
  const bits = atob(encoded), found = [];
  for (let at = 0; at < 8 * bits.length; at++) if ((bits.charCodeAt(at >> 3) >> (at & 7)) & 1) found.push(at);
  return found;
}

const counted = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

function describeTree(tree, links, joining, brokers) {
  const served = `Flow ${tree.flow} serves ${counted(tree.members, "subscription")} at ${counted(brokers, "broker")}`;
  const part = joining === links ? "" : `, ${count(joining)} of them between members`;
  const way = tree.steered ? "each event takes its own way to those who want it" : `its tree has ${counted(links, "link")}${part}`;
  const left = tree.wanted - tree.wants.length;
  const others = left ? ` and ${counted(left, "other")}` : "";
  const wanted = tree.wanted ? ` They want: ${tree.wants.join("; ")}${others}.` : "";
  const clients = tree.clients ? ` Clients: ${tree.clients}.` : "";
  const entering = tree.events === "TRUE" ? "" : ` Events that enter: ${tree.events}`;
  return `${served}; ${way}.${wanted}${clients}${entering}`;
}

function drawTraffic() {
  const { classes } = plan();
  const paths = [...$("traffic").children].map(() => []);
  for (let pair = 0; pair < pairs; pair++) paths[classes[pair]].push(line(pair));
  paths.forEach((each, at) => $("traffic").children[at].setAttribute("d", each.join("")));
}

function drawTree() {
  const tree = chosenTree();
  const [links, joining, brokers] = tree ? [tree.links, tree.joining, tree.brokers].map(numbersIn) : [[], [], []];
  $("tree").setAttribute("d", links.map(line).join(""));
  $("joining").setAttribute("d", joining.map(line).join(""));
  $("members").setAttribute("d", brokers.map(dot).join(""));
  map.classList.toggle("with-tree", tree !== undefined);
  map.classList.toggle("sparse", brokers.length <= SPARSE);
  $("traffic-legend").hidden = tree !== undefined;
  $("tree-legend").hidden = tree === undefined;
  $("drawn").textContent = tree ? "a flow" : "the traffic";
  $("note").textContent = tree ? describeTree(tree, links.length, joining.length, brokers.length) : "";
}

/** Traffic, or the tree that has the same rank as that of the plan before: so plans can be compared tree by tree. */
function offerTrees() {
  const { trees, flows } = plan();
  const before = $("chosen").value;
  const all = new Option(`the traffic of ${flows === 1 ? "its flow" : `all ${count(flows)} flows`}`, "");
  const largest = document.createElement("optgroup");
  largest.label = flows > trees.length ? `The ${trees.length} flows with most members` : "Flows, most members first";
  largest.append(...trees.map((tree, at) => new Option(`flow ${tree.flow}: ${counted(tree.members, "member")}`, at)));
  $("chosen").replaceChildren(all, ...(trees.length ? [largest] : []));
  $("chosen").value = before === "" || !trees.length ? "" : Math.min(before, trees.length - 1);
  $("tree-choice").hidden = trees.length === 0;
}

function choosePlan() {
  const { name } = plan();
  $("shown").textContent = name;
  offerTrees();
  for (const body of $("links").tBodies) body.hidden = body.dataset.plan !== $("plan").value;
  point(null);
  drawTraffic();
  drawTree();
}

const total = (values, pair) => values[2 * pair] + values[2 * pair + 1];
const direction = (from, to, at) => [
  `${names[from]} → ${names[to]}`,
  `${size(plan().bytes[at])} in ${count(plan().frames[at])} frames, price ${known(prices[at])}, ${known(delays[at])} ms`,
];

function describeLink(pair) {
  const [one, other] = [ends[2 * pair], ends[2 * pair + 1]];
  return [direction(one, other, 2 * pair), direction(other, one, 2 * pair + 1)];
}

function describeBroker(broker) {
  let links = 0, into = [0, 0], out = [0, 0];
  const { bytes, frames } = plan();
  for (let pair = 0; pair < pairs; pair++) {
    if (ends[2 * pair] !== broker && ends[2 * pair + 1] !== broker) continue;
    const leaving = 2 * pair + (ends[2 * pair] === broker ? 0 : 1);
    links++;
    out = [out[0] + bytes[leaving], out[1] + frames[leaving]];
    into = [into[0] + bytes[leaving ^ 1], into[1] + frames[leaving ^ 1]];
  }
  const told = ([sum, many]) => `${size(sum)} in ${count(many)} frames`;
  const rows = [[names[broker], counted(links, "link")], ["", `in: ${told(into)}`], ["", `out: ${told(out)}`]];
  const clients = plan().clients[broker]; // undefined where no client has a name
  return clients ? [...rows, ["", `clients: ${clients}`]] : rows;
}

/** Marks what = {link} or {broker} and shows its numbers beside it; null takes both away. */
function point(what, at) {
  const { link, broker } = what ?? {};
  $("mark").setAttribute("d", link === undefined ? "" : line(link));
  $("spot").setAttribute("d", broker === undefined ? "" : dot(broker));
  tip.hidden = what === null || at === undefined;
  if (tip.hidden) return;
  const rows = (link === undefined ? describeBroker(broker) : describeLink(link)).map(([head, text]) => {
    const row = document.createElement("div"), strong = document.createElement("strong");
    strong.textContent = head;
    row.append(...(head ? [strong] : []), text);
    return row;
  });
  tip.replaceChildren(...rows);
  const box = stage.getBoundingClientRect();
  const left = Math.min(at.x - box.left + 14, box.width - tip.offsetWidth - 8);
  const below = at.y - box.top + 16;
  tip.style.left = `${Math.max(left, 8)}px`;
  tip.style.top = `${below + tip.offsetHeight < box.height ? below : below - tip.offsetHeight - 30}px`;
}

const onMap = (event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(map.getScreenCTM().inverse());
const onScreen = (px, py) => new DOMPoint(px, py).matrixTransform(map.getScreenCTM());

function distanceToLink(p, pair) {
  const [a, b] = [ends[2 * pair], ends[2 * pair + 1]];
  const [dx, dy] = [x(b) - x(a), y(b) - y(a)];
  const along = ((p.x - x(a)) * dx + (p.y - y(a)) * dy) / (dx * dx + dy * dy || 1);
  const t = Math.max(0, Math.min(1, along));
  return Math.hypot(p.x - x(a) - t * dx, p.y - y(a) - t * dy);
}

function nearest(many, distance, reach) {
  let best = -1;
  for (let each = 0; each < many; each++) {
    const far = distance(each);
    if (far < reach) [best, reach] = [each, far];
  }
  return best;
}

/** The broker under the pointer, else the link, else null. */
function under(event) {
  const p = onMap(event), reach = REACH / map.getScreenCTM().a;
  const broker = nearest(names.length, (each) => Math.hypot(p.x - x(each), p.y - y(each)), reach);
  if (broker >= 0) return { broker };
  const link = nearest(pairs, (each) => distanceToLink(p, each), reach);
  return link >= 0 ? { link } : null;
}

const [WIDTH, HEIGHT] = data.size;
const view = { x: 0, y: 0, zoom: 1 };

function look(left, top, zoom) {
  view.zoom = Math.max(1, Math.min(40, zoom));
  view.x = Math.max(0, Math.min(WIDTH - WIDTH / view.zoom, left));
  view.y = Math.max(0, Math.min(HEIGHT - HEIGHT / view.zoom, top));
  map.setAttribute("viewBox", `${view.x} ${view.y} ${WIDTH / view.zoom} ${HEIGHT / view.zoom}`);
  map.style.setProperty("--zoom", view.zoom);
  map.classList.toggle("zoomed", view.zoom > 1);
}

function zoomAt(p, factor) {
  const zoom = Math.max(1, Math.min(40, view.zoom * factor)), ratio = view.zoom / zoom;
  look(p.x - (p.x - view.x) * ratio, p.y - (p.y - view.y) * ratio, zoom);
}

const middle = () => ({ x: view.x + WIDTH / view.zoom / 2, y: view.y + HEIGHT / view.zoom / 2 });
let dragged = null; // the place on the map that the pointer holds
const walk = { link: -1, broker: -1 };

/** Links or brokers, busiest first, for the arrow keys. */
function ranked(kind) {
  const { bytes, frames } = plan();
  const load = bytes.some(Boolean) ? bytes : frames;
  if (kind === "link") return [...Array(pairs).keys()].sort((a, b) => total(load, b) - total(load, a));
  const sums = names.map(() => 0);
  ends.forEach((broker, at) => (sums[broker] += total(load, at >> 1)));
  return [...names.keys()].sort((a, b) => sums[b] - sums[a]);
}

function step(event) {
  if (event.key === "Escape") return point(null);
  const kind = event.key === "ArrowLeft" || event.key === "ArrowRight" ? "link" : "broker";
  const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  const order = by ? ranked(kind) : [];
  if (!order.length) return;
  event.preventDefault();
  walk[kind] = walk[kind] < 0 && by < 0 ? order.length - 1 : (walk[kind] + by + order.length) % order.length;
  const found = order[walk[kind]];
  const [a, b] = kind === "link" ? [ends[2 * found], ends[2 * found + 1]] : [found, found];
  point({ [kind]: found }, onScreen((x(a) + x(b)) / 2, (y(a) + y(b)) / 2));
}

function listen() {
  $("plan").addEventListener("change", choosePlan);
  $("chosen").addEventListener("change", drawTree);
  $("nearer").addEventListener("click", () => zoomAt(middle(), 1.6));
  $("farther").addEventListener("click", () => zoomAt(middle(), 1 / 1.6));
  $("fit").addEventListener("click", () => look(0, 0, 1));
  map.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // or the page could not be scrolled over the picture
    event.preventDefault();
    zoomAt(onMap(event), Math.exp(-event.deltaY / 250));
  }, { passive: false });
  map.addEventListener("pointerdown", (event) => {
    if (view.zoom > 1) dragged = onMap(event);
    point(under(event), event);
  });
  map.addEventListener("pointermove", (event) => {
    if (!dragged || !event.buttons) return point(under(event), event);
    const p = onMap(event);
    point(null);
    look(view.x + dragged.x - p.x, view.y + dragged.y - p.y, view.zoom);
  });
  window.addEventListener("pointerup", () => (dragged = null));
  map.addEventListener("pointerleave", () => point(null));
  stage.addEventListener("keydown", step);
  stage.addEventListener("blur", () => point(null));
  for (const row of document.querySelectorAll("[data-link]")) {
    const link = Number(row.dataset.link);
    row.addEventListener("pointerenter", () => point({ link }));
    row.addEventListener("pointerleave", () => point(null));
  }
}

if (plans.length) {
  $("controls").hidden = false;
  stage.tabIndex = 0;
  listen();
  choosePlan();
}
