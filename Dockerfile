# A static binary that runs as nobody. Build it with
#   docker build -t greenroom .
# and run it with a volume for the embedded store:
#   docker run -p 127.0.0.1:8080:8080 -v greenroom:/data -e GREENROOM_TOKEN=… greenroom
# or with a database instead:
#   docker run -p 127.0.0.1:8080:8080 -e GREENROOM_STORE=postgresql://… -e GREENROOM_TOKEN=… greenroom
FROM golang:1.26 AS build
WORKDIR /src
COPY . .
ARG VERSION=docker
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /greenroom ./cmd/greenroom \
 && mkdir /data

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /greenroom /greenroom
COPY --from=build --chown=65534:65534 /data /data
USER 65534:65534
VOLUME /data
# The embedded store, if no database is named, is in /data/greenroom-data.
WORKDIR /data
EXPOSE 8080
# Any address but loopback needs a token: set GREENROOM_TOKEN.
ENV GREENROOM_LISTEN=0.0.0.0:8080
ENTRYPOINT ["/greenroom"]
CMD ["serve"]
