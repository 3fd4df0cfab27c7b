// The home page's picture: the slider moves through a recorded launch.
for (const root of document.querySelectorAll("#stepped")) {
  const { frames, finding } = JSON.parse(root.dataset.launch);
  const slider = root.querySelector("input");
  const show = () => {
    const step = Number(slider.value);
    const { line, tile } = frames[step];
    const at = step === frames.length - 1;
    root.querySelector("output").textContent = step;
    for (const span of root.querySelectorAll("[data-line]")) {
      const number = Number(span.dataset.line);
      span.className = number === line ? "here" : at && number === finding.other ? "cause" : "";
    }
    root.querySelector(".tile code").textContent = `${tile.join(" ")} …`;
    root.querySelector(".said").textContent = at
      ? `${finding.rule}: ${finding.message}. To mend it: ${finding.advice}.`
      : line === finding.other
        ? `The cause: line ${line} writes the tile through the generic proxy. Nothing makes it visible to the async proxy.`
        : line > finding.other ? "The tile is written, for whoever reads through the generic proxy." : "Drag the slider, or start at the finding and go back.";
    root.classList.toggle("found", at);
  };
  slider.addEventListener("input", show);
  show();
}
