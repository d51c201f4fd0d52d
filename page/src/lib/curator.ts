// The curator's view is a part of its own: src/curator/Curator.svelte, loaded only by those who may see it.
import type { Component } from 'svelte';

const modules = import.meta.glob<{ default: Component }>('../curator/Curator.svelte');

export const hasCurator = Object.keys(modules).length > 0;

export async function loadCurator(): Promise<Component | null> {
  const load = Object.values(modules)[0];
  return load ? (await load()).default : null;
}
