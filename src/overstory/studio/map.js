// The network of one plan: its traffic by regions or by brokers, a flow's tree, or an event's way.
const map = $("map"), stage = $("stage"), tip = $("tip");
const REACH = 9; // pixels around the pointer
const SPARSE = 100; // brokers with members, up to which there is room for large dots
const AREAS = "regions", EVENT = "event ";

const plan = () => plans[$("plan").value];
const chosenTree = () => plan().trees[$("chosen").value]; // undefined while no flow is shown
const chosenWay = () => ($("chosen").value.startsWith(EVENT) ? plan().ways[$("chosen").value.slice(EVENT.length)] : undefined);
const layer = () => (areas && $("chosen").value === AREAS ? areas : every);
const line = (pair) => lineOf(every, pair);
const dot = (broker) => dotOf(every, broker);

/** The numbers of the bits that are set. */
function numbersIn(encoded) {
  const bits = atob(encoded), found = [];
  for (let at = 0; at < 8 * bits.length; at++) if ((bits.charCodeAt(at >> 3) >> (at & 7)) & 1) found.push(at);
  return found;
}

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

/** Lines by the class of their width; where there are many brokers and something else is shown, none. */
function drawTraffic() {
  const shown = layer(), bare = areas && (chosenTree() || chosenWay());
  const paths = [...$("traffic").children].map(() => []);
  const loads = shown.loads(plan()), most = largest(plans.flatMap((each) => largest(shown.loads(each))));
  if (!bare) loads.forEach((load, pair) => paths[widthOf(load, most)].push(lineOf(shown, pair)));
  paths.forEach((each, at) => $("traffic").children[at].setAttribute("d", each.join("")));
  $("regions").replaceChildren(...(shown === areas ? circles() : []));
  $("brokers").setAttribute("d", shown === areas ? "" : [...names.keys()].map(dot).join(""));
  map.classList.toggle("areas", shown === areas);
}

function drawTree() {
  const tree = chosenTree(), way = chosenWay();
  const [links, joining, brokers] = tree ? [tree.links, tree.joining, tree.brokers].map(numbersIn) : [[], [], []];
  $("tree").setAttribute("d", links.map(line).join(""));
  $("joining").setAttribute("d", joining.map(line).join(""));
  $("members").setAttribute("d", brokers.map(dot).join(""));
  map.classList.toggle("with-tree", tree !== undefined || way !== undefined);
  map.classList.toggle("sparse", brokers.length <= SPARSE);
  $("traffic-legend").hidden = tree !== undefined || way !== undefined || layer() === areas;
  $("region-legend").hidden = layer() !== areas;
  $("tree-legend").hidden = tree === undefined;
  $("way-legend").hidden = way === undefined;
  $("drawn").textContent = tree ? "a flow" : way ? "an event’s way" : layer() === areas ? "the traffic between regions" : "the traffic";
  $("note").textContent = tree ? describeTree(tree, links.length, joining.length, brokers.length) : way ? describeWay(way) : "";
  showWay(way);
}

function draw() {
  point(null);
  drawTraffic();
  drawTree();
  label();
}

const label = () => placeLabels(map, $("labels"), layer(), busiest(layer(), plan()), map.clientWidth < 480 ? 20 : 60);

/** What can be shown. A flow or an event stays chosen from plan to plan, so that plans can be compared by it. */
function offerTrees() {
  const { trees, flows, ways } = plan();
  const before = $("chosen").options.length ? $("chosen").value : null;
  const all = `the traffic of ${flows === 1 ? "its flow" : `all ${count(flows)} flows`}`;
  const offered = areas ? [new Option(`${all}, by regions`, AREAS), new Option(`${all}, by brokers`, "")] : [new Option(all, "")];
  const largest_flows = document.createElement("optgroup");
  largest_flows.label = flows > trees.length ? `The ${trees.length} flows with most members` : "Flows, most members first";
  largest_flows.append(...trees.map((tree, at) => new Option(`flow ${tree.flow}: ${counted(tree.members, "member")}`, at)));
  const events = document.createElement("optgroup");
  events.label = "One event’s way, hop by hop";
  events.append(...ways.map((_, at) => new Option(data.events[at].label, `${EVENT}${at}`)));
  $("chosen").replaceChildren(...offered, ...(trees.length ? [largest_flows] : []), ...(ways.length ? [events] : []));
  const values = [...$("chosen").options].map((option) => option.value);
  const rank = /^[0-9]+$/.test(before) && trees.length ? String(Math.min(before, trees.length - 1)) : before;
  $("chosen").value = values.includes(rank) ? rank : values[0];
  $("tree-choice").hidden = values.length === 1;
}

function choosePlan() {
  $("shown").textContent = plan().name;
  offerTrees();
  for (const body of $("links").tBodies) body.hidden = body.dataset.plan !== $("plan").value;
  draw();
}

const direction = (from, to, at) => [
  `${names[from]} → ${names[to]}`,
  `${size(plan().bytes[at])} in ${count(plan().frames[at])} frames, price ${known(prices[at])}, ${known(delays[at])} ms`,
];

function describeLink(pair) {
  const shown = layer(), [one, other] = [shown.ends[2 * pair], shown.ends[2 * pair + 1]];
  if (shown === areas) {
    const many = areas.pairOf.filter((each) => each === pair).length;
    const load = told(plan())(areas.loads(plan())[pair]);
    return [[`around ${areas.names[one]} – around ${areas.names[other]}`, `${load} over ${counted(many, "link")}, both ways`]];
  }
  return [direction(one, other, 2 * pair), direction(other, one, 2 * pair + 1)];
}

function describeRegion(region) {
  const brokers = areas.of.filter((each) => each === region).length;
  let inside = 0;
  every.loads(plan()).forEach((load, pair) => {
    if (areas.pairOf[pair] < 0 && areas.of[ends[2 * pair]] === region) inside += load;
  });
  return [[`around ${areas.names[region]}`, counted(brokers, "broker")], ["", `${told(plan())(inside)} on links within it`]];
}

function describeBroker(broker) {
  if (layer() === areas) return describeRegion(broker);
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
  $("mark").setAttribute("d", link === undefined ? "" : lineOf(layer(), link));
  $("spot").setAttribute("d", broker === undefined ? "" : dotOf(layer(), broker));
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

const onMap = (event) => within(map, event);
const onScreen = (px, py) => new DOMPoint(px, py).matrixTransform(map.getScreenCTM());

/** The broker or region under the pointer, else the link, else null. */
function under(event) {
  const p = onMap(event), reach = REACH / map.getScreenCTM().a, shown = layer();
  const away = (each) => Math.hypot(p.x - xOf(shown, each), p.y - yOf(shown, each)) - shown.radius(each);
  const broker = nearest(shown.names.length, away, reach);
  if (broker >= 0) return { broker };
  const link = nearest(shown.ends.length / 2, (each) => distanceToLine(shown, p, each), reach);
  return link >= 0 ? { link } : null;
}

const view = { x: 0, y: 0, zoom: 1 };

function look(left, top, zoom) {
  view.zoom = Math.max(1, Math.min(40, zoom));
  view.x = Math.max(0, Math.min(WIDTH - WIDTH / view.zoom, left));
  view.y = Math.max(0, Math.min(HEIGHT - HEIGHT / view.zoom, top));
  map.setAttribute("viewBox", `${view.x} ${view.y} ${WIDTH / view.zoom} ${HEIGHT / view.zoom}`);
  map.style.setProperty("--zoom", view.zoom);
  map.classList.toggle("zoomed", view.zoom > 1);
  label();
}

function zoomAt(p, factor) {
  const zoom = Math.max(1, Math.min(40, view.zoom * factor)), ratio = view.zoom / zoom;
  look(p.x - (p.x - view.x) * ratio, p.y - (p.y - view.y) * ratio, zoom);
}

const middle = () => ({ x: view.x + WIDTH / view.zoom / 2, y: view.y + HEIGHT / view.zoom / 2 });
let dragged = null; // the place on the map that the pointer holds
const walk = { link: -1, broker: -1 };


function step(event) {
  if (event.key === "Escape") return point(null);
  const kind = event.key === "ArrowLeft" || event.key === "ArrowRight" ? "link" : "broker";
  const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  const shown = layer(), order = by ? (kind === "link" ? busiestLines : busiest)(shown, plan()) : [];
  if (!order.length) return;
  event.preventDefault();
  walk[kind] = walk[kind] < 0 && by < 0 ? order.length - 1 : (walk[kind] + by + order.length) % order.length;
  const found = order[walk[kind]];
  const [a, b] = kind === "link" ? [shown.ends[2 * found], shown.ends[2 * found + 1]] : [found, found];
  point({ [kind]: found }, onScreen((xOf(shown, a) + xOf(shown, b)) / 2, (yOf(shown, a) + yOf(shown, b)) / 2));
}

function listen() {
  $("plan").addEventListener("change", choosePlan);
  $("chosen").addEventListener("change", draw);
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
    row.addEventListener("pointerenter", () => { if (layer() === every) point({ link }); });
    row.addEventListener("pointerleave", () => point(null));
  }
}

function startMap() {
  $("controls").hidden = false;
  stage.tabIndex = 0;
  listen();
  choosePlan();
}
