/** Light, dark or system theme. The choice is stored in localStorage. */
const THEMES = ['auto', 'light', 'dark'] as const;
type Theme = (typeof THEMES)[number];

const STORAGE_KEY = 'sluice.theme';

/** Returns the result of `access`, or undefined if the browser blocks localStorage. */
function tryStorage<T>(access: () => T): T | undefined {
  try {
    return access();
  } catch {
    return undefined;
  }
}

function storedTheme(): Theme {
  const stored = tryStorage(() => localStorage.getItem(STORAGE_KEY));
  return THEMES.find((theme) => theme === stored) ?? 'auto';
}

let theme: Theme = 'auto';
const listeners = new Set<() => void>();

function applyTheme(): void {
  document.documentElement.dataset.theme = theme;
  colours.clear();
  for (const listener of listeners) listener();
}

/** Applies the stored theme, and follows the system if it is `auto`. */
export function initTheme(): void {
  theme = storedTheme();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', applyTheme);
  applyTheme();
}

/** Calls `listener` after each change of the theme. Returns a function that unsubscribes. */
export function onThemeChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function switchTheme(): void {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  tryStorage(() => localStorage.setItem(STORAGE_KEY, theme));
  applyTheme();
}

export const themeLabel = (): string => `Theme: ${theme}`;

const colours = new Map<string, string>();

/**
 * Returns the current value of a CSS custom property as a colour for canvases. Reads it from a
 * temporary element, because the property itself is text such as `light-dark(…)`.
 */
export function colour(name: string, alpha = 1): string {
  let resolved = colours.get(name);
  if (resolved === undefined) {
    const probe = document.createElement('span');
    probe.hidden = true;
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    resolved = getComputedStyle(probe).color;
    probe.remove();
    colours.set(name, resolved);
  }
  const [red, green, blue] = resolved.match(/[\d.]+/g) ?? ['0', '0', '0'];
  return alpha === 1 ? resolved : `rgba(${red}, ${green}, ${blue}, ${alpha})`;
}
