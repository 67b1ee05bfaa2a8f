// Before and after on the same map, links coloured by the difference.
const NEAR = 10; // pixels around the pointer

function drawSide(svg, loads, change, most, most_change) {
  const groups = new Map();
  loads.forEach((load, at) => {
    const shade = change[at] ? Math.sign(change[at]) * Math.ceil(SHADES * Math.sqrt(Math.abs(change[at]) / most_change)) : 0;
    const key = 10 * widthOf(load, most) + shade + SHADES;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(lineOf(main, at));
  });
  const paths = [...groups].sort(([a], [b]) => a - b).map(([key, lines]) =>
    shape("path", { class: `c${Math.floor(key / 10)} d${key % 10}`, d: lines.join("") }));
  svg.querySelector(".lines").replaceChildren(...paths);
}

const sidePlans = () => [plans[$("before").value], plans[$("after").value]];

function drawSides() {
  const [before, after] = sidePlans();
  const both = [before, after].map((plan) => main.loads(plan));
  const change = both[0].map((load, at) => both[1][at] - load);
  const most = largest(both.flat()), most_change = largest(change.map(Math.abs));
  ["before", "after"].forEach((id, at) => {
    const svg = $(`side-${id}`);
    drawSide(svg, both[at], change, most, most_change);
    svg.parentElement.querySelector("strong").textContent = [before, after][at].name;
  });
  labelSides();
}

function labelSides() {
  for (const svg of document.querySelectorAll("svg.side")) {
    const plan = plans[$("after").value];
    placeLabels(svg, svg.querySelector(".labels"), main, busiest(main, plan), svg.clientWidth < 480 ? 16 : 60);
  }
}

function tellSide(event) {
  const svg = event.currentTarget, p = within(svg, event), reach = NEAR / svg.getScreenCTM().a;
  const pair = nearest(main.ends.length / 2, (each) => distanceToLine(main, p, each), reach);
  const tip = $("side-tip");
  tip.hidden = pair < 0;
  if (pair < 0) return;
  const [before, after] = sidePlans();
  const [was, is] = [main.loads(before)[pair], main.loads(after)[pair]];
  const how = was ? ` (${is > was ? "+" : ""}${((is / was - 1) * 100).toFixed(0)}%)` : "";
  const [one, other] = [main.ends[2 * pair], main.ends[2 * pair + 1]].map((at) => main.names[at]);
  tip.textContent = `${one} – ${other}: ${told(before)(was)} before, ${told(after)(is)} after${how}`;
  const box = tip.parentElement.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(event.clientX - box.left + 12, box.width - tip.offsetWidth - 8))}px`;
  tip.style.top = `${event.clientY - box.top + 14}px`;
}

function startSides() {
  const both = document.querySelectorAll("svg.side");
  if (areas) for (const svg of both) svg.querySelector(".circles").replaceChildren(...circles());
  if (both.length === 2) {
    $("sides-controls").hidden = false;
    for (const id of ["before", "after"]) $(id).addEventListener("change", drawSides);
    const tip = document.createElement("div");
    tip.id = "side-tip";
    tip.className = "tip";
    tip.hidden = true;
    document.querySelector(".both").append(tip);
    for (const svg of both) {
      svg.addEventListener("pointermove", tellSide);
      svg.addEventListener("pointerdown", tellSide);
      svg.addEventListener("pointerleave", () => (tip.hidden = true));
    }
  }
  labelSides();
}
