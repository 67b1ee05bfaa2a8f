// Every picture can be saved as it stands there: as SVG, with its style written into it, or as PNG.
const STYLED = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-linecap", "stroke-linejoin", "stroke-opacity", "opacity",
  "paint-order", "font-size", "font-family", "font-weight", "text-anchor", "display"];
const TOP = 26; // pixels for the words above a picture

/** A copy of a picture that needs no style sheet, at this place. */
function standing(svg, x, y) {
  const copy = svg.cloneNode(true);
  const [from, to] = [svg, copy].map((root) => [...root.querySelectorAll("*")]), scale = svg.getScreenCTM().a;
  from.forEach((each, at) => {
    const style = getComputedStyle(each), fixed = style.getPropertyValue("vector-effect") !== "none";
    const written = STYLED.map((name) => [name, style.getPropertyValue(name)]);
    // a line that is as wide at any scale would be thin in a large picture
    if (fixed) written.push(["stroke-width", parseFloat(style.strokeWidth) / scale]);
    to[at].setAttribute("style", written.map(([name, value]) => `${name}:${value}`).join(";"));
    for (const name of ["id", "class"]) to[at].removeAttribute(name);
  });
  for (const name of ["id", "class"]) copy.removeAttribute(name);
  const { width, height } = svg.getBoundingClientRect();
  for (const [name, value] of Object.entries({ x, y, width, height })) copy.setAttribute(name, value);
  return copy;
}

/** All pictures of a card beside each other as one. */
function whole(card) {
  const style = getComputedStyle(card), ink = getComputedStyle(document.body);
  const page = shape("svg", {}), back = shape("rect", { width: "100%", height: "100%", fill: style.backgroundColor });
  page.append(back);
  let wide = 0, tall = 0;
  for (const svg of card.querySelectorAll("svg[role=img]")) {
    const box = svg.getBoundingClientRect(), words = svg.parentElement.querySelector("figcaption strong");
    const above = shape("text", { x: wide + 8, y: 18, fill: ink.color, "font-family": ink.fontFamily, "font-size": 13 });
    above.textContent = svg.closest("[data-save]") === svg.parentElement || !words ? "" : svg.parentElement.querySelector("figcaption").textContent;
    page.append(above, standing(svg, wide, TOP));
    [wide, tall] = [wide + box.width, Math.max(tall, box.height + TOP)];
  }
  for (const [name, value] of Object.entries({ width: wide, height: tall, viewBox: `0 0 ${wide} ${tall}` })) page.setAttribute(name, value);
  return page;
}

function handOver(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function save(card, kind) {
  const page = whole(card), text = new XMLSerializer().serializeToString(page), name = `${card.dataset.save}.${kind}`;
  if (kind === "svg") return handOver(new Blob([text], { type: "image/svg+xml" }), name);
  const image = new Image(), sharp = 2; // pixels for each of the screen's
  image.onload = () => {
    const canvas = document.createElement("canvas");
    canvas.width = sharp * page.getAttribute("width");
    canvas.height = sharp * page.getAttribute("height");
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => handOver(blob, name), "image/png");
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
}

function startSaving() {
  for (const card of document.querySelectorAll("[data-save]")) {
    const row = document.createElement("p");
    row.className = "save";
    row.append("Save the picture as");
    for (const kind of ["svg", "png"]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = kind.toUpperCase();
      button.addEventListener("click", () => save(card, kind));
      row.append(button);
    }
    card.append(row);
  }
}
