"use strict";

// machine instructions of a line: made when both texts are first shown, and shown when its number is chosen
function prepare(sides) {
  const hint = sides.querySelector(".hint");
  for (const data of sides.querySelectorAll("script[data-side]")) {
    const side = data.dataset.side;
    const lines = JSON.parse(data.textContent);
    const number = side === "old" ? 1 : 3;
    for (const cell of sides.querySelectorAll(`.both b:nth-child(${number})`)) {
      const code = lines[cell.textContent];
      if (code === undefined) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = cell.textContent;
      button.setAttribute("aria-expanded", "false");
      button.setAttribute("aria-label", `${side} line ${cell.textContent}: machine instructions`);
      button.addEventListener("click", () => toggle(button, side, code));
      cell.replaceChildren(button);
    }
    hint.hidden = false;
  }
}

function toggle(button, side, code) {
  const row = button.closest("div");
  let panel = row.nextElementSibling;
  if (!panel || panel.className !== "machine") {
    panel = document.createElement("div");
    panel.className = "machine";
    row.after(panel);
  }
  const shown = panel.querySelector(`.${side}`);
  if (shown) {
    shown.remove();
    if (!panel.firstChild) panel.remove();
  } else {
    const listing = document.createElement("pre");
    listing.className = side;
    listing.textContent = code;
    panel.append(listing);
  }
  button.setAttribute("aria-expanded", String(!shown));
}

for (const sides of document.querySelectorAll("details.sides")) {
  sides.addEventListener("toggle", () => prepare(sides), { once: true });
}

// a link to a kernel unfolds it, also where the browser does not do so itself
function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const folded = target && target.closest("details");
  if (folded && !folded.open) {
    folded.open = true;
    target.scrollIntoView();
  }
}
addEventListener("hashchange", reveal);
reveal();
