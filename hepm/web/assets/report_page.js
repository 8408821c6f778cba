// The report as one file: its data and the runs that it names are in it.
"use strict";

const WHOLE = JSON.parse(document.getElementById("data").textContent);
readRun = async (id) => WHOLE.runs[id] ?? null;
document.getElementById("report").replaceChildren(...reportParts(WHOLE.report));
