// The route of the console is the fragment of its URL.
//
//	#/APP/PAGE/NAME/NAME?KEY=VALUE
import { useEffect, useState } from "preact/hooks";

export interface Route {
  app: string;
  page: string;
  names: string[];
  query: URLSearchParams;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // somebody typed it
  }
}

export function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [app = "", page = "", ...names] = path.split("/").map(decode);
  return { app: app || "default", page: page || "overview", names, query: new URLSearchParams(query) };
}

export function href(app: string, page: string, names: string[] = [], query: Record<string, string> = {}): string {
  const path = [app, page, ...names].map(encodeURIComponent).join("/");
  const set = Object.entries(query).filter(([, v]) => v !== "");
  return `#/${path}${set.length ? "?" + new URLSearchParams(set) : ""}`;
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => parse(location.hash));
  useEffect(() => {
    const changed = () => setRoute(parse(location.hash));
    addEventListener("hashchange", changed);
    changed(); // the hash may have changed before this listener was added
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}
