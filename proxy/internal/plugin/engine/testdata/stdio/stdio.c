// Guest stdio uses the C library: formatted output, memory, the environment and files, of which there are none.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((export_name("run"))) int run(void) {
	char *text = malloc(64);
	snprintf(text, 64, "%d %s %.2f", 42, "text", 1.5);
	printf("out %s\n", text);
	fprintf(stderr, "err %s\n", text);
	int length = (int)strlen(text);
	free(text);
	FILE *file = fopen("/etc/passwd", "r");
	if (file != NULL || getenv("HOME") != NULL || getchar() != EOF) {
		return -1;
	}
	return length;
}
