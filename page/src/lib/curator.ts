// The curator's view is a part of its own: src/curator/Curator.svelte, loaded only by those who may see it.
import type { Component } from 'svelte';

const found = import.meta.glob<{ default: Component }>('../curator/Curator.svelte');

export const hasCurator = Object.keys(found).length > 0;

export async function loadCurator(): Promise<Component | null> {
  const load = Object.values(found)[0];
  return load ? (await load()).default : null;
}
