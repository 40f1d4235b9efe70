// Renders Markdown from stdin with Pi's own component, without colours: what a user of Pi reads.
import { readFileSync } from "node:fs";
import { Markdown } from "@earendil-works/pi-tui";

const plain = new Proxy({}, { get: (_, name) => (name === "highlightCode" ? undefined : (text) => text) });
console.log(new Markdown(readFileSync(0, "utf8"), 0, 0, plain).render(200).join("\n"));
