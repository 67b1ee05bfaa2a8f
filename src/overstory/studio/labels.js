// Names where there is room: measured as they will be drawn, so that none lies on another or on a broker.
const LETTERS = 11; // pixels
const ruler = document.createElement("canvas").getContext("2d");

function overlaps(box, others) {
  return others.some((o) => box[0] < o[2] && o[0] < box[2] && box[1] < o[3] && o[1] < box[3]);
}

/** Writes the names of a layer into the group, in the order given, at most so many. */
function placeLabels(svg, group, layer, order, most) {
  const matrix = svg.getScreenCTM();
  group.replaceChildren();
  if (!matrix || !svg.clientWidth) return;
  const scale = matrix.a, view = svg.viewBox.baseVal;
  ruler.font = `${LETTERS}px ${getComputedStyle(document.body).fontFamily}`;
  const seen = (at) => xOf(layer, at) >= view.x && xOf(layer, at) <= view.x + view.width &&
    yOf(layer, at) >= view.y && yOf(layer, at) <= view.y + view.height;
  const visible = order.filter(seen), room = 3 / scale;
  const taken = visible.map((at) => {
    const reach = layer.radius(at) + room;
    return [xOf(layer, at) - reach, yOf(layer, at) - reach, xOf(layer, at) + reach, yOf(layer, at) + reach];
  });
  const made = [];
  for (const at of visible) {
    if (made.length >= most) break;
    const name = layer.names[at].length > 26 ? `${layer.names[at].slice(0, 25)}…` : layer.names[at];
    const wide = ruler.measureText(name).width / scale + room, tall = 1.35 * LETTERS / scale;
    const [x, y, off] = [xOf(layer, at), yOf(layer, at), layer.radius(at) + 5 / scale];
    const places = [["start", x + off, y], ["end", x - off, y], ["middle", x, y - off - tall / 2], ["middle", x, y + off + tall / 2]];
    for (const [anchor, left, middle] of places) {
      const from = anchor === "start" ? left : anchor === "end" ? left - wide : left - wide / 2;
      const box = [from, middle - tall / 2, from + wide, middle + tall / 2];
      const inside = box[0] >= view.x && box[1] >= view.y && box[2] <= view.x + view.width && box[3] <= view.y + view.height;
      if (!inside || overlaps(box, taken)) continue;
      taken.push(box);
      const text = shape("text", { x: left, y: middle, dy: ".35em", "text-anchor": anchor, "font-size": LETTERS / scale });
      text.textContent = name;
      made.push(text);
      break;
    }
  }
  group.append(...made);
}
