// From the address to what is shown, and back: the one place that ties the three steps together.
import { api } from '../api';
import { problemFrom } from '../api/client';
import type { Answer } from '../api/types';
import { comparison, format, parse, type Place } from '../route';
import { spoken } from '../words';
import { asking } from './asking.svelte';
import { comparing } from './comparing.svelte';
import { explaining } from './explaining.svelte';
import { telling } from './telling.svelte';
import { workspace } from './workspace.svelte';

class Journey {
  /** Set while a link is being followed: what it names is loaded for free as soon as it can be. */
  linked = $state.raw<Place | null>(null);
  loadingAnswer = $state(false);
  #loads = 0;
  #steps = 0;

  async follow(hash: string): Promise<void> {
    const place = parse(hash);
    workspace.problem = null;
    const name = place.dataset ?? onlyName();
    if (!name) {
      workspace.dataset = null;
      return;
    }
    this.loadingAnswer = place.answer !== null && !isShown(place.answer); // before the form that it would fold is drawn
    await workspace.open(name);
    if (!workspace.dataset) {
      this.loadingAnswer = false;
      return;
    }
    asking.begin(workspace.dataset);
    this.linked = place.explain || place.story ? place : null;
    if (place.answer === null) {
      comparing.answer = null;
      comparing.clear();
      explaining.reset();
      telling.reset();
      return;
    }
    const isOther = !isShown(place.answer);
    if (isOther || comparing.confidence !== place.confidence) {
      explaining.reset();
      telling.reset();
      await this.load(place.answer, place.confidence);
    }
    if (!comparing.answer || !isShown(place.answer)) return;
    comparing.show(comparing.answer, place.of);
    comparing.choose(place.groups, place.atLeast, place.compare);
    comparing.from = place.from?.map((entry) => (/^\d+$/.test(entry) ? Number(entry) : entry)) ?? null;
    if (!place.groups.length && (isOther || this.linked)) comparing.suggest();
    if (!comparing.complete) explaining.reset();
    telling.reset();
    if (place.explain) explaining.restore(place.explain);
  }

  /** A stored answer; free. */
  async load(id: number | string, confidence: number): Promise<void> {
    const dataset = workspace.dataset;
    if (!dataset) return;
    const load = (this.#loads += 1);
    const isOther = !isShown(String(id));
    const { wanted } = asking;
    this.loadingAnswer = true;
    try {
      const answer = await api.answer(dataset.name, id, { confidence });
      if (load !== this.#loads) return;
      comparing.confidence = confidence;
      comparing.show(answer);
      if (!isOther) return;
      asking.opened = false;
      if (asking.wanted === wanted) asking.takeAnswer(answer); // what somebody wrote meanwhile stays
    } catch (error) {
      if (load === this.#loads) workspace.problem = problemFrom(error);
    } finally {
      if (load === this.#loads) this.loadingAnswer = false;
    }
  }

  /** A fresh answer becomes the one that is shown; the address gets a step of its own for it. */
  show(answer: Answer, keep: { label: string; weight: number }[] = []): void {
    explaining.reset();
    telling.reset();
    asking.opened = false;
    comparing.confidence = answer.confidence;
    comparing.show(answer);
    if (keep.length) comparing.choose(keep);
    else comparing.suggest();
    history.pushState(null, '', format(this.place));
    const groups = answer.parts[0]?.rows.length ?? 0;
    workspace.say(`Answer ${answer.id}: ${groups} groups. ${spoken(answer.finding)}`);
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
        : explaining.table || explaining.work.job
          ? explaining.place
          : (this.linked?.explain ?? null),
      from: comparing.complete ? this.#releases : null,
      // A link has one job, which the story takes if it has one too: it would take an explanation for its own.
      story: explaining.work.job ? null : (telling.place ?? this.linked?.story ?? null),
      job: explaining.work.job?.id ?? telling.work.job?.id ?? this.linked?.job ?? null,
    };
  }

  /** What is shown was read off these; where nothing is shown yet, what the link names. */
  get #releases(): string[] | null {
    if (comparing.from) return comparing.from.map(String);
    // An explanation that was bought by itself is found by its own request.
    const table = explaining.table?.mechanism === 'marginals' ? explaining.table : null;
    const read = [table, telling.story].flatMap((result) => result?.releases ?? []);
    return read.length ? [...new Set(read.map(String))] : null;
  }

  get link(): string {
    return new URL(format(this.place), document.baseURI).href;
  }

  /** Keeps the address in step with what is shown. Groups that somebody chose are a step that "back" undoes. */
  remember(): void {
    const hash = format(this.place);
    const isStep = comparing.steps !== this.#steps;
    this.#steps = comparing.steps;
    if (hash === location.hash) return;
    if (isStep) history.pushState(null, '', hash);
    else history.replaceState(null, '', hash);
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
