if (plans.length) {
  startSides();
  startMap();
  startWays();
  startSaving();
  let before = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === before) return;
    before = innerWidth;
    labelSides();
    label();
  });
}
