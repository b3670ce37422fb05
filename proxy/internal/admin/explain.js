"use strict";
// Sends the form as JSON and shows the response as text. The script is inlined into the page, so it must not contain
// characters that are markup.
document.getElementById("ask").addEventListener("submit", async function (event) {
  event.preventDefault();
  const data = new FormData(this), answer = document.getElementById("answer");
  const show = function (text, failed) {
    answer.textContent = text;
    answer.className = failed ? "card bad" : "card";
    answer.hidden = false;
  };
  const request = { model: data.get("model"), key: data.get("key"), api: data.get("api"), headers: {} };
  for (const line of data.get("headers").split("\n")) {
    if (line.trim() === "") continue;
    const at = line.indexOf(":");
    if (at === -1) return show("A header must be a name, a colon and a value.", true);
    request.headers[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  try {
    if (data.get("body").trim() !== "") request.body = JSON.parse(data.get("body"));
  } catch (e) {
    return show("The body is not JSON: " + e.message, true);
  }
  try {
    const response = await fetch("/explain", {
      method: "POST", headers: { "content-type": "application/json", accept: "text/plain" }, body: JSON.stringify(request),
    });
    show(await response.text(), !response.ok);
  } catch (e) {
    show("The gateway does not respond.", true);
  }
});
