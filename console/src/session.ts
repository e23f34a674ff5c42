// The caller of the API, as the server sees it.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { type GetServerResponse, Role } from "./gen/greenroom/v1/status_pb";

export const Session = createContext<GetServerResponse | undefined>(undefined);

export function useSession(): GetServerResponse {
  const s = useContext(Session);
  if (!s) throw new Error("there is no session outside of it");
  return s;
}

export const may = (s: GetServerResponse, role: Role): boolean => s.role >= role;
export const roleName = (r: Role): string => (Role[r] ?? "").toLowerCase();
