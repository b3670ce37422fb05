"use strict";
// Updates the page in place, so that scroll positions and open details are preserved. The script is inlined into the
// page, so it must not contain characters that are markup.
setInterval(async function () {
  if (document.hidden || !getSelection().isCollapsed) return;
  const lost = document.getElementById("lost");
  try {
    const response = await fetch(location.href, { cache: "no-store" });
    if (!response.ok) throw new Error(response.status);
    const next = new DOMParser().parseFromString(await response.text(), "text/html");
    const open = new Set(Array.from(document.querySelectorAll("details[open]"), function (d) { return d.id; }));
    const aside = new Map(Array.from(document.querySelectorAll(".table"), function (t) { return [t.id, t.scrollLeft]; }));
    const x = scrollX, y = scrollY;
    for (const name of ["header", "main"]) document.querySelector(name).replaceWith(next.querySelector(name));
    for (const d of document.querySelectorAll("details")) d.open = open.has(d.id);
    for (const t of document.querySelectorAll(".table")) t.scrollLeft = aside.get(t.id) || 0;
    scrollTo(x, y);
    document.title = next.title;
    lost.hidden = true;
  } catch (e) {
    lost.hidden = false;
  }
}, 5000);
