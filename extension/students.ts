/**
 * Students: what `students.json` in Machine's folder says of a project: its student, and the release that is on trial in it.
 * Python writes the file (`machine.tinker.served`); it is read at each request, so that what it says holds from the next one on.
 *
 * No message names a path: Pi asks again where the words of an error have a number like 503 in them, as a folder's may.
 */
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { machineHome } from "./python.ts";

/** A release that is tried out: `model` answers `share` of the turns, or sessions, that the salted draw gives it. */
export interface Trial {
	release: string;
	model: string;
	share: number;
	unit: "turn" | "session";
	salt: string;
}

interface StudentsFile {
	version: number;
	projects: Record<string, { model: string; why?: string }>;
	trials?: Record<string, Trial>;
}

const NEWEST = 2; // 1: without trials

/** The name of the model that is the student of the project of `cwd`. Throws, in one line, where it has none. */
export function servedIn(cwd: string): string {
	const model = own(read().projects, rootOf(cwd))?.model;
	if (typeof model !== "string") throw new Error("this project has no student yet");
	return model;
}

/** What that student is; undefined where it has none. */
export function kindOfStudent(cwd: string): "release" | "base" | undefined {
	const student = own(read().projects, rootOf(cwd));
	return student && (student.why === undefined || student.why === "base" ? "base" : "release");
}

export function isServed(cwd: string, name: string): boolean {
	try {
		return servedIn(cwd) === name;
	} catch {
		return false; // no student, or a file that the next command speaks of
	}
}

/** The trial in the project of `cwd`, if one is on. Throws, in one line, where the file cannot be read. */
export function trialIn(cwd: string): Trial | undefined {
	const trials = read().trials;
	const trial = trials && own(trials, rootOf(cwd));
	return trial && typeof trial.model === "string" && typeof trial.salt === "string" && trial.share > 0 ? trial : undefined;
}

export function isOnTrial(cwd: string): boolean {
	try {
		return trialIn(cwd) !== undefined;
	} catch {
		return false;
	}
}

function read(): StudentsFile {
	const path = join(machineHome(), "students.json");
	if (!existsSync(path)) return { version: 1, projects: {} };
	const file = parsed(path);
	if (!(file.version >= 1 && file.version <= NEWEST)) throw new Error(`students.json is of version ${file.version}, this Machine reads ${NEWEST}`);
	return file;
}

function parsed(path: string): StudentsFile {
	try {
		const file = JSON.parse(readFileSync(path, "utf8")) as StudentsFile;
		if (typeof file?.projects === "object" && file.projects) return file;
	} catch {}
	throw new Error("students.json cannot be read");
}

function own<T>(record: Record<string, T>, key: string): T | undefined {
	return Object.hasOwn(record, key) ? record[key] : undefined;
}

/** The project of a folder, by the rule of `machine.store.project`: the git work tree that it lies in, else itself. */
function rootOf(cwd: string): string {
	const here = realpathSync(cwd);
	for (let folder = here; ; folder = dirname(folder)) {
		if (existsSync(join(folder, ".git")) && folder !== homedir()) return folder;
		if (folder === dirname(folder)) return here;
	}
}
