// From the address to what is shown, and back: the one place that ties the three steps together.
import { api } from '../api';
import { problemFrom } from '../api/client';
import type { Answer } from '../api/types';
import { comparison, format, isCurator, parse, type Place } from '../route';
import { asking } from './asking.svelte';
import { comparing } from './comparing.svelte';
import { explaining } from './explaining.svelte';
import { preparations } from './prepared.svelte';
import { workspace } from './workspace.svelte';

class Journey {
  /** Set while a link is being followed: what it names is loaded for free as soon as it can be. */
  linked = $state.raw<Place | null>(null);
  loadingAnswer = $state(false);
  #loads = 0;
  #early: { dataset: string; id: string; confidence: number; answer: Promise<Answer> } | null = null;

  /** Of a link, the answer is fetched beside what else the page needs to begin. */
  begin(hash: string): void {
    const { dataset, answer: id, confidence } = parse(hash);
    if (!dataset || id === null || isCurator(hash)) return;
    const answer = api.answer(dataset, id, { confidence });
    answer.catch(() => {}); // whoever takes it handles its failure
    this.#early = { dataset, id, confidence, answer };
  }

  async follow(hash: string): Promise<void> {
    const place = parse(hash);
    workspace.problem = null;
    const name = place.dataset ?? onlyName();
    if (!name) {
      workspace.dataset = null;
      return;
    }
    await workspace.open(name);
    if (!workspace.dataset) return;
    asking.begin(workspace.dataset);
    this.linked = place.explain ? place : null;
    if (place.answer === null) {
      comparing.answer = null;
      comparing.clear();
      explaining.reset();
      return;
    }
    if (!isShown(place.answer) || comparing.confidence !== place.confidence) {
      const isOther = !isShown(place.answer);
      const { written } = asking;
      explaining.reset();
      await this.load(place.answer, place.confidence);
      // What somebody wrote while it was on the way stays.
      if (isOther && comparing.answer && isShown(place.answer) && asking.written === written)
        asking.takeAnswer(comparing.answer);
      if (isOther) asking.opened = false;
    }
    if (!comparing.answer || !isShown(place.answer)) return;
    comparing.show(comparing.answer, place.of);
    comparing.choose(place.groups, place.atLeast, place.compare);
    if (!comparing.complete) explaining.reset();
    if (place.explain) explaining.restore(place.explain);
    const claimsPrepared = place.explain?.rho === null;
    if (!comparing.complete || claimsPrepared) void preparations.learn(explaining.family, claimsPrepared);
  }

  /** A stored answer; free. */
  async load(id: number | string, confidence: number): Promise<void> {
    const dataset = workspace.dataset;
    if (!dataset) return;
    const load = (this.#loads += 1);
    this.loadingAnswer = true;
    try {
      const answer = await (this.#begun(dataset.name, id, confidence) ?? api.answer(dataset.name, id, { confidence }));
      if (load !== this.#loads) return;
      comparing.confidence = confidence;
      comparing.show(answer);
    } catch (error) {
      if (load === this.#loads) workspace.problem = problemFrom(error);
    } finally {
      if (load === this.#loads) this.loadingAnswer = false;
    }
  }

  #begun(dataset: string, id: number | string, confidence: number): Promise<Answer> | null {
    const early = this.#early;
    this.#early = null;
    const fits = early?.dataset === dataset && early.id === String(id) && early.confidence === confidence;
    return fits ? early.answer : null;
  }

  /** A fresh answer becomes the one that is shown; the address gets a step of its own for it. */
  show(answer: Answer, keep: { label: string; weight: number }[] = []): void {
    explaining.reset();
    asking.opened = false;
    comparing.confidence = answer.confidence;
    comparing.show(answer);
    if (keep.length) comparing.choose(keep);
    if (answer.free && !comparing.complete) void preparations.learn(explaining.family, false);
    history.pushState(null, '', format(this.place));
    const groups = answer.parts[0]?.rows.length ?? 0;
    workspace.say(`Answer ${answer.id}: ${groups} groups. Choose two of them to ask why.`);
  }

  get place(): Place {
    return {
      dataset: workspace.dataset?.name ?? null,
      answer: comparing.answer ? String(comparing.answer.address) : null,
      of: comparing.answer && comparing.answer.parts.length > 1 ? comparing.of : null,
      confidence: comparing.confidence,
      groups: comparing.chosen.map(({ row, weight }) => ({ label: row.label, weight })),
      atLeast: comparing.atLeast,
      ...comparison(comparing.compare),
      explain: !comparing.complete
        ? null
        : explaining.table || explaining.job
          ? explaining.place
          : (this.linked?.explain ?? null),
      job: explaining.job?.id ?? this.linked?.job ?? null,
    };
  }

  get link(): string {
    return new URL(format(this.place), document.baseURI).href;
  }

  /** Keep the address in step with what is shown, without a step of its own. */
  remember(): void {
    const hash = format(this.place);
    if (hash !== location.hash) history.replaceState(null, '', hash);
  }
}

function onlyName(): string | null {
  return workspace.datasets?.length === 1 ? workspace.datasets[0]!.name : null;
}

/** Whether the answer of a link is the one that is shown; an own one may be written without its owner. */
function isShown(answer: string): boolean {
  const shown = comparing.answer;
  return shown !== null && [String(shown.address), String(shown.id)].includes(answer);
}

export const journey = new Journey();
