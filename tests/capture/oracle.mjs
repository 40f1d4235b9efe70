// Pi's own projection, one session a line: {entries, leaf} in, the messages for a model out. Run with Node, given Pi's folder.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const pi = await import(pathToFileURL(`${process.argv[2]}/dist/index.js`).href);
for await (const line of createInterface({ input: process.stdin })) {
	const { entries, leaf } = JSON.parse(line);
	const messages = pi.convertToLlm(pi.buildSessionContext(entries, leaf).messages);
	process.stdout.write(`${JSON.stringify(messages).replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`)}\n`);
}
